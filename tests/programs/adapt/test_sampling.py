"""Which tasks are chosen: algorithm 1 by hand, and what holds for any programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.files.errors import UserError
from lib.programs.adapt.sampling import (
    METHODS,
    choose_tasks,
    kmeans_tasks,
    mean_distances,
    standardized,
)


@st.composite
def tasks(draw):
    """Rows of programs, where each task's begin, and a number of tasks to choose."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    seed = draw(st.integers(0, 1000))
    rows = np.random.default_rng(seed).integers(0, 4, (sum(sizes), 3)).astype(np.float32)
    return rows, np.concatenate([[0], np.cumsum(sizes)]), draw(st.integers(1, len(sizes)))


@pytest.mark.parametrize("method", METHODS)
@given(case=tasks(), seed=st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_chosen_tasks_are_distinct_and_the_same_again(method, case, seed):
    rows, first, count = case
    chosen = choose_tasks(method, rows, first, count, seed)
    assert len(set(chosen.tolist())) == count
    assert set(chosen.tolist()) <= set(range(len(first) - 1))
    assert np.array_equal(chosen, choose_tasks(method, rows, first, count, seed))


@pytest.mark.parametrize("method", METHODS)
def test_all_tasks_can_be_chosen_and_no_more(method):
    rows, first = np.random.default_rng(0).normal(size=(12, 2)), np.arange(0, 13, 3)
    assert sorted(choose_tasks(method, rows, first, 4, 0).tolist()) == [0, 1, 2, 3]
    for count in (0, 5):
        with pytest.raises(UserError, match=f"--tasks {count}: must be from 1 to 4"):
            choose_tasks(method, rows, first, count, 0)


def test_each_cluster_has_the_task_nearest_to_it_the_largest_first():
    # Three heaps: two tasks in the first, two in the second, one in the third.
    centres = np.array([0.0, 0.0, 100.0, 100.0, 200.0])
    spread = [[3, 5, 4], [0, 8, 4], [0, 8], [3, 5], [4]]  # tasks 0, 3, 4 lie nearer the middle
    rows = np.concatenate([c + np.array(s) for c, s in zip(centres, spread, strict=True)])
    rows = np.stack([rows, np.full(len(rows), 7.0)], 1)  # and a column that says nothing
    first = np.concatenate([[0], np.cumsum([len(s) for s in spread])])
    for seed in range(3):
        assert kmeans_tasks(rows, first, 3, seed).tolist() == [0, 3, 4]


def test_a_task_that_is_taken_leaves_the_next_cluster_its_second_choice():
    # Task 0 has programs in both heaps, task 1 lies far away: clusters of 3 and 3.
    rows = np.array([[0.0], [10.0], [0.1], [0.2], [10.1], [10.2]])
    first = np.array([0, 2, 4, 6])
    assert set(kmeans_tasks(rows, first, 2, 0).tolist()) == {1, 2}
    assert set(kmeans_tasks(rows, first, 3, 0).tolist()) == {0, 1, 2}


@given(tasks(), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_the_table_of_mean_distances(case, count):
    rows, first, _ = case
    centres = np.random.default_rng(count).normal(size=(count, 3))
    found = mean_distances(rows, first, centres)
    for e, centre in enumerate(centres):
        for task in range(len(first) - 1):
            own = rows[first[task] : first[task + 1]]
            wanted = np.mean(np.linalg.norm(own - centre, axis=1))
            assert found[e, task] == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@given(tasks())
@settings(max_examples=30, deadline=None)
def test_columns_have_unit_variance_or_are_left_out(case):
    found = standardized(case[0])
    varying = (case[0].std(0) > 1e-6).sum()
    assert found.shape == (len(case[0]), max(1, varying))
    np.testing.assert_allclose(found.std(0), 1 if varying else 0, rtol=1e-4)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-5)
