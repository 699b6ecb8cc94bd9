"""What rows hear: the same by compiled loops and by torch, there and back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import native
from lib.models.context import ContextLayer, Neighbours

pytestmark = pytest.mark.skipif(not native.available(), reason="no C++ compiler")
MEMBERS, CHANNELS = 2, 5


@st.composite
def layers(draw) -> tuple[ContextLayer, int]:
    """A layer, and how many rows there were before it."""
    before, rows = draw(st.integers(1, 8)), draw(st.integers(0, 8))
    row = st.integers(0, before - 1)

    def neighbours() -> Neighbours:
        each = [draw(st.lists(row, max_size=4)) for _ in range(rows)]
        sources = torch.tensor([one for own in each for one in own], dtype=torch.int64)
        counts = torch.tensor([0, *map(len, each)], dtype=torch.int64)
        return Neighbours(sources, counts.cumsum(0))

    own = torch.tensor([draw(row) for _ in range(rows)], dtype=torch.int64)
    return ContextLayer(own, neighbours(), neighbours()), before


@given(drawn=layers(), seed=st.integers(0, 9))
@settings(deadline=None)
def test_compiled_loops_hear_what_torch_hears(drawn, seed):
    layer, before = drawn
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(before, MEMBERS, CHANNELS, generator=generator)
    weights = torch.randn(MEMBERS, len(layer.own), 3 * CHANNELS, generator=generator)
    found = []
    for dtype in (torch.float32, torch.float64):  # torch's own functions take the second
        own = states.to(dtype).requires_grad_()
        heard = layer.heard(own)
        (gradient,) = torch.autograd.grad((heard * weights).sum(), own)
        found.append((heard.detach().float(), gradient.float()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
