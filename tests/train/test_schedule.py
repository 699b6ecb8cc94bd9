"""Warm-up, peak and end of the learning rate."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from lib.train.schedule import learning_rate


@pytest.fixture
def rates() -> list[float]:
    return [learning_rate(step, 1000, 1e-3, 0.05) for step in range(1000)]


def test_warm_up_is_a_line_to_the_peak(rates):
    assert rates[0] == pytest.approx(1e-3 / 50)
    assert rates[24] == pytest.approx(1e-3 / 2)
    assert rates[49] == max(rates) == 1e-3
    assert all(a < b for a, b in pairwise(rates[:50]))


def test_then_half_a_cosine_down_to_zero(rates):
    assert rates[50 + 475] == pytest.approx(1e-3 / 2)
    assert rates[50 + 237] == pytest.approx(5e-4 * (1 + math.cos(math.pi * 237 / 950)))
    assert all(a >= b for a, b in pairwise(rates[49:]))
    assert 0 < rates[-1] < 1e-8


@pytest.mark.parametrize("warmup", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_short_runs(steps, warmup):
    rates = [learning_rate(step, steps, 2.0, warmup) for step in range(steps)]
    assert all(0 < rate <= 2 for rate in rates)
    assert max(rates) == 2
