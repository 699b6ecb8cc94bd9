"""The loss against a double loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.models.common.settings import LOSS_NAMES
from lib.training.loss import LOSSES, correlation, pairwise_hinge
from tests.builders import tiny_settings

ROWS = st.lists(
    st.tuples(st.floats(-5, 5), st.integers(1, 4)), min_size=1, max_size=9
)  # few runtimes: many ties


def slow_hinge(scores: list[float], runtimes: list[int]) -> float:
    pairs = [(i, j) for i, a in enumerate(runtimes) for j, b in enumerate(runtimes) if a > b]
    terms = [max(0.0, 1 - (scores[i] - scores[j])) for i, j in pairs]
    return sum(terms) / len(terms) if terms else 0.0


@given(ROWS)
@settings(max_examples=80, deadline=None)
def test_equals_a_double_loop(rows):
    scores, runtimes = zip(*rows, strict=True)
    found = pairwise_hinge(torch.tensor(scores, dtype=torch.float64), torch.tensor(runtimes))
    assert found.item() == pytest.approx(slow_hinge(scores, runtimes), abs=1e-12)


def test_nanoseconds_that_floats_cannot_tell_apart():
    runtimes = torch.from_numpy(np.array([2**60, 2**60 + 1]))
    assert pairwise_hinge(torch.tensor([3.0, 0.0]), runtimes) == 4


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(10**6, 10**7)), min_size=2, max_size=30))
@settings(max_examples=80, deadline=None)
def test_correlation_is_pearsons_whatever_the_unit(rows):
    scores, runtimes = map(np.array, zip(*rows, strict=True))
    if scores.std() < 1e-3 or runtimes.std() == 0:
        return
    given_scores = torch.tensor(scores, dtype=torch.float64)
    found = correlation(given_scores, torch.tensor(runtimes))
    expected = 1 - np.corrcoef(scores, runtimes)[0, 1]
    assert found.item() == pytest.approx(expected, abs=1e-6)
    other = correlation(3 * given_scores + 1, torch.tensor(runtimes * 7))
    assert other.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_orders_that_say_nothing_have_no_gradient_and_are_finite(name):
    for runtimes in ([5, 5, 5], [5]):
        scores = torch.linspace(0, 1, len(runtimes), dtype=torch.float64).requires_grad_()
        cost = LOSSES[name](scores, torch.tensor(runtimes))
        (gradient,) = torch.autograd.grad(cost, scores)
        assert cost.isfinite() and not gradient.any()


def test_the_table_has_every_loss_that_settings_name_and_no_other():
    assert {*LOSS_NAMES, tiny_settings().loss} == set(LOSSES)
