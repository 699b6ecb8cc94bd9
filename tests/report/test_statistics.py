"""Errors and paired tests against scipy, against brute force, and where answers are known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lib.report.statistics import mean, paired

VALUES = st.lists(st.integers(-20, 20).map(lambda v: v / 4), min_size=1, max_size=9)


@settings(deadline=None, max_examples=30)
@given(VALUES)
def test_mean_and_its_error(values):
    found = mean(values)
    assert found.value == pytest.approx(np.mean(values))
    assert found.count == len(values)
    if len(values) > 1:
        assert found.error == pytest.approx(stats.sem(values))
    else:
        assert math.isnan(found.error)


@settings(deadline=None, max_examples=30)
@given(VALUES)
def test_sign_flips_are_all_tried(values):
    kept = [v for v in values if v]
    sums = [abs(sum(s * v for s, v in zip(signs, kept, strict=True)))
            for signs in itertools.product((-1, 1), repeat=len(kept))]  # fmt: skip
    expected = np.mean([one >= abs(sum(kept)) - 1e-9 for one in sums])
    assert paired(np.zeros(len(values)), values).permutation == pytest.approx(expected)


@settings(deadline=None, max_examples=30)
@given(VALUES, st.data())
def test_swapping_sides_swaps_wins_and_signs(first, data):
    second = data.draw(st.lists(st.integers(-20, 20), min_size=len(first), max_size=len(first)))
    one, other = paired(first, second), paired(second, first)
    assert one.difference.value == pytest.approx(-other.difference.value)
    assert (one.wins, one.losses, one.ties) == (other.losses, other.wins, other.ties)
    assert one.wins + one.losses + one.ties == len(first)
    assert one.permutation == pytest.approx(other.permutation)
    lower = paired(first, second, higher_is_better=False)
    assert (lower.wins, lower.losses) == (one.losses, one.wins)
