"""Warm-up, peak and end of the learning rate."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from lib.settings.base import SCHEDULES as NAMES
from lib.training.schedule import CYCLES, HIGHEST, LOWEST, SCHEDULES, learning_rate


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


def test_or_cycles_about_the_rate():
    rates = [learning_rate(k, 1050, 2.0, 50 / 1050, "cyclic") for k in range(50, 1050)]
    turns = [k for k in range(1, 999) if (rates[k] - rates[k - 1]) * (rates[k + 1] - rates[k]) < 0]
    assert len(turns) == 2 * CYCLES - 1
    assert (rates[0], max(rates)) == pytest.approx((2 * LOWEST, 2 * HIGHEST))
    assert rates[-1] == pytest.approx(2 * (LOWEST + (HIGHEST - LOWEST) * 2 * CYCLES / 1000))


def test_every_schedule_that_a_setting_names_is_there():
    assert tuple(SCHEDULES) == NAMES


@pytest.mark.parametrize("warmup", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_short_runs(steps, warmup, schedule):
    rates = [learning_rate(step, steps, 2.0, warmup, schedule) for step in range(steps)]
    highest = HIGHEST if schedule == "cyclic" else 1
    assert all(0 < rate <= 2 * highest for rate in rates)
    assert highest > 1 or max(rates) == 2
