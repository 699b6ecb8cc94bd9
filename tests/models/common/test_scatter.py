"""Both ways of reducing runs of rows give the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.models.common import scatter


@given(
    degrees=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    width=st.integers(1, 5),
    reduce=st.sampled_from(["sum", "mean", "max"]),
    seed=st.integers(0, 99),
)
def test_reductions_are_those_of_a_loop(degrees, width, reduce, seed):
    """To the bit if torch_scatter is there: who adds up is no reason to train anew."""
    generator = torch.Generator().manual_seed(seed)
    pointers = torch.tensor([0, *np.cumsum(degrees)])
    shape = (int(pointers[-1]), 3, width)
    values = torch.randn(shape, generator=generator).double().requires_grad_()
    own = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[reduce]
    runs = [values[i:j] for i, j in itertools.pairwise(pointers.tolist())]
    expected = torch.stack([own(x, 0) if len(x) else values.sum(0) * 0 for x in runs])
    found = scatter.torch_segment(values, pointers, reduce)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(found.shape, generator=generator).double()
    gradient = torch.autograd.grad((found * weights).sum(), values)[0]
    torch.testing.assert_close(gradient, torch.autograd.grad((expected * weights).sum(), values)[0])
    other = scatter.segment(values, pointers, reduce)
    assert torch.equal(found, other)
    assert torch.equal(gradient, torch.autograd.grad((other * weights).sum(), values)[0])


@pytest.mark.parametrize("incoming", [1.0, -1.0])
def test_a_maximum_that_several_rows_have_shares_its_gradient(incoming):
    values = torch.tensor([5.0, 5.0, 0.0], requires_grad=True)
    found = scatter.segment(values, torch.tensor([0, 3]), "max")
    (gradient,) = torch.autograd.grad(found.sum() * incoming, values)
    assert gradient.tolist() == [incoming / 2, incoming / 2, 0.0]
