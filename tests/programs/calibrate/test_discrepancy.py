"""Central Moment Discrepancy: against moments by hand, and what it must be for any samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lib.programs.calibrate.tuning import central_moment_discrepancy

NUMBERS = st.floats(-100, 100, width=32)
SAMPLES = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4)).flatmap(
    lambda sizes: st.tuples(
        arrays(np.float64, (sizes[0], sizes[2]), elements=NUMBERS),
        arrays(np.float64, (sizes[1], sizes[2]), elements=NUMBERS),
    )
)


def discrepancy(one, other, moments: int = 5) -> float:
    return float(central_moment_discrepancy(torch.tensor(one), torch.tensor(other), moments))


def by_hand(one: np.ndarray, other: np.ndarray, moments: int) -> float:
    """Equation 6, term by term."""
    width = max(one.max(), other.max()) - min(one.min(), other.min())
    total = np.linalg.norm(one.mean(0) - other.mean(0)) / width
    for j in range(2, moments + 1):
        first = ((one - one.mean(0)) ** j).mean(0)
        second = ((other - other.mean(0)) ** j).mean(0)
        total += np.linalg.norm(first - second) / width**j
    return total


@given(SAMPLES, st.integers(1, 5))
def test_it_is_the_equation(pair, moments):
    one, other = pair
    if max(one.max(), other.max()) - min(one.min(), other.min()) > 1e-3:
        wanted = by_hand(one, other, moments)
        assert discrepancy(one, other, moments) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_equal_samples_have_a_finite_gradient():
    one = torch.zeros(4, 2, requires_grad=True)
    central_moment_discrepancy(one, torch.zeros(3, 2)).backward()
    assert torch.equal(one.grad, torch.zeros(4, 2))
