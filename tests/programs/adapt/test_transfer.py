"""Latencies carried over from one device to another, on rules that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lib.programs.adapt.transfer import (
    SHIFTS,
    Table,
    best_factor,
    blend_of,
    corrected,
    error_of,
    known_or_predicted,
    parts_of,
    scaled_source,
)

GAPS = arrays(np.float64, st.integers(1, 20), elements=st.floats(-0.8, 0.8))


def some_programs(seed: int = 0, count: int = 240) -> tuple[Table, np.ndarray, np.ndarray]:
    """Programs whose first feature says whether the target runs them three times as fast."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 6)).astype(np.float32)
    sources = rng.normal(-8, 1.5, (count, 2))
    sources[:, 1] = sources[:, 0] - 0.5
    target = sources[:, 1] - 0.2 - np.log(3) * (rows[:, 0] > 0) + rng.normal(0, 0.02, count)
    return Table(rows, sources), target, np.arange(count) // 8


@given(GAPS)
def test_no_other_factor_is_better(gap):
    found, middle = error_of(gap + best_factor(gap)), np.median(gap)
    assert all(found <= error_of(gap - middle + shift) + 1e-12 for shift in SHIFTS)


@pytest.mark.parametrize("times", [0.01, 0.2, 0.4, 1.0, 50.0])
def test_any_factor_is_found(times):
    gap = np.log(np.random.default_rng(0).uniform(0.9, 1.1, 99) * times)
    assert np.exp(best_factor(gap)) * times == pytest.approx(1.0, rel=0.05)
    gap[:9] += 7.0  # predicted a thousand times too slow
    assert np.exp(best_factor(gap, most=1.0)) * times == pytest.approx(1.0, rel=0.05)


@given(st.floats(-0.9, 0.9), st.integers(1, 9))
def test_the_factor_of_programs_that_are_all_off_alike(shift, count):
    assert best_factor(np.full(count, -shift)) == pytest.approx(shift, abs=SHIFTS[1] - SHIFTS[0])


def test_the_baseline_is_the_source_that_fits_and_knows_nothing_of_others():
    table, target, _ = some_programs()
    known = np.arange(240) < 80
    noisy = np.random.default_rng(1).normal(-8, 2, 240)
    found = scaled_source(np.stack([noisy, table.sources[:, 0]], 1), known, target[known])
    shift = found - table.sources[:, 0]
    np.testing.assert_allclose(shift, shift[0])
    lacking = np.full((240, 1), np.nan)
    assert np.isnan(scaled_source(lacking, known, target[known])).all()
    both = np.concatenate([lacking, table.sources[:, :1]], 1)
    np.testing.assert_array_equal(
        scaled_source(both, known, target[known]),
        scaled_source(table.sources[:, :1], known, target[known]),
    )


def test_what_programs_gain_is_learned_from_their_features():
    table, target, task = some_programs()
    known = task < 15
    found, again = (
        corrected(table.some(known), target[known], task[known], [table], seed=0)[0]
        for _ in range(2)
    )
    others = ~known
    scaled = scaled_source(table.sources, known, target[known])
    assert error_of((found - target)[others]) < 0.25 < 0.35 < error_of((scaled - target)[others])
    np.testing.assert_array_equal(found, again)


def test_where_there_is_nothing_to_learn_a_factor_is_all():
    rng = np.random.default_rng(0)
    table, _, task = some_programs()
    target = table.sources[:, 0] - 0.3 + rng.normal(0, 0.3, 240)
    known = task < 5
    found = corrected(table.some(known), target[known], task[known], [table], seed=0)[0]
    scaled = scaled_source(table.sources, known, target[known])
    assert error_of((found - target)[~known]) < 1.1 * error_of((scaled - target)[~known])


@pytest.mark.parametrize("tasks", [1, 2])
def test_one_task_is_enough_to_go_on(tasks):
    table, target, task = some_programs()
    known = task < tasks
    (found,) = corrected(table.some(known), target[known], task[known], [table], seed=0)
    assert np.isfinite(found).all()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_parts_have_each_task_once(tasks):
    task = np.array(tasks)
    parts = list(parts_of(task))
    assert (np.sum(parts, axis=0) == 1).all() and all(part.any() for part in parts)
    for part in parts:
        assert not set(task[part]) & set(task[~part])


@settings(max_examples=5, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(2, 9), st.just(3)), elements=st.floats(-0.5, 0.5)))
def test_a_blend_is_no_worse_than_any_member_with_a_factor(members):
    weights, shift = blend_of(members, np.zeros(len(members)))
    assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
    found = error_of(members @ weights + shift)
    assert all(found <= error_of(one + best_factor(one)) + 1e-9 for one in members.T)


def test_a_blend_of_many_members_finds_those_that_are_right():
    members = np.random.default_rng(0).normal(size=(50, 14))
    weights, shift = blend_of(members, (members[:, 3] + members[:, 9]) / 2 + 0.5)
    assert weights[[3, 9]] == pytest.approx([0.5, 0.5]) and shift == pytest.approx(0.5, abs=0.01)


def test_predicted_latencies_stand_in_for_missing_ones():
    seconds = np.array([[1.0, np.nan], [np.nan, np.e]])
    found = known_or_predicted(seconds, np.full((2, 2), 7.0))
    np.testing.assert_allclose(found, [[0, 7], [7, 1]])
