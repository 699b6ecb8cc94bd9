"""GELU and dropout in one compiled pass: torch's numbers, and draws that are fair."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lib import native
from lib.models.common.activation import gelu_dropout

pytestmark = pytest.mark.skipif(not native.available(), reason="no C++ compiler")
SHARE = 0.3


def numbers(*shape: int, seed: int = 0, scale: float = 3.0) -> torch.Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def both(x: torch.Tensor, share: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Values in training and the gradient of their sum."""
    x = x.clone().requires_grad_()
    value = gelu_dropout(x, share, True)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    return value.detach(), gradient


@given(count=st.integers(0, 100), seed=st.integers(0, 9), scale=st.sampled_from([1e-6, 0.1, 3, 50]))
def test_without_dropout_it_is_gelu(count, seed, scale):
    x = numbers(count, seed=seed, scale=scale)
    exact = x.double().requires_grad_()
    value = nn.functional.gelu(exact)
    (gradient,) = torch.autograd.grad(value.sum(), exact)
    for found, wanted in zip(both(x), (value.detach(), gradient), strict=True):
        torch.testing.assert_close(found.double(), wanted, atol=1e-6, rtol=1e-6)
    assert torch.equal(gelu_dropout(x, SHARE, False), both(x)[0])


def test_draws_are_fair_and_independent():
    x, count = torch.ones(1 << 17), 1 << 17
    drawn = [(gelu_dropout(x, SHARE, True) == 0).numpy().astype(float) for _ in range(2)]
    error = np.sqrt(SHARE * (1 - SHARE) / count)
    for one in drawn:
        assert one.mean() == pytest.approx(SHARE, abs=5 * error)
    pairs = [(drawn[0], drawn[1])]  # another call, and neighbours at several distances
    pairs += [(drawn[0][:-step], drawn[0][step:]) for step in (1, 2, 8, 16, 32, 1024)]
    for one, other in pairs:
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(count)


@pytest.mark.parametrize("threads", [1, 2])
def test_draws_come_from_the_seed_alone(threads):
    x, before = numbers(1 << 16), torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.manual_seed(5)
    own = gelu_dropout(x, SHARE, True)
    torch.set_num_threads(1)
    torch.manual_seed(5)
    assert torch.equal(own, gelu_dropout(x, SHARE, True))
    assert not torch.equal(own, gelu_dropout(x, SHARE, True))
    torch.set_num_threads(before)
