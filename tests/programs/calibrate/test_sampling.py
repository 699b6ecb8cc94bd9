"""Which tasks are chosen: algorithm 1 by hand, and what holds for any programs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.programs.calibrate.sampling import kmeans_tasks, standardized


@st.composite
def tasks(draw):
    """Rows of programs, where each task's begin, and a number of tasks to choose."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    seed = draw(st.integers(0, 1000))
    rows = np.random.default_rng(seed).integers(0, 4, (sum(sizes), 3)).astype(np.float32)
    return rows, np.concatenate([[0], np.cumsum(sizes)]), draw(st.integers(1, len(sizes)))


@given(case=tasks(), seed=st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_chosen_tasks_are_distinct_and_the_same_again(case, seed):
    rows, first, count = case
    chosen = kmeans_tasks(rows, first, count, seed)
    assert len(set(chosen.tolist())) == count
    assert set(chosen.tolist()) <= set(range(len(first) - 1))
    assert np.array_equal(chosen, kmeans_tasks(rows, first, count, seed))


def test_each_cluster_has_the_task_nearest_to_it_the_largest_first():
    # Three heaps: two tasks in the first, two in the second, one in the third.
    centres = np.array([0.0, 0.0, 100.0, 100.0, 200.0])
    spread = [[3, 5, 4], [0, 8, 4], [0, 8], [3, 5], [4]]  # tasks 0, 3, 4 lie nearer the middle
    rows = np.concatenate([c + np.array(s) for c, s in zip(centres, spread, strict=True)])
    rows = np.stack([rows, np.full(len(rows), 7.0)], 1)  # and a column that says nothing
    first = np.concatenate([[0], np.cumsum([len(s) for s in spread])])
    for seed in range(3):
        assert kmeans_tasks(rows, first, 3, seed).tolist() == [0, 3, 4]


@given(tasks())
@settings(max_examples=30, deadline=None)
def test_columns_have_unit_variance_or_are_left_out(case):
    found = standardized(case[0])
    varying = (case[0].std(0) > 1e-6).sum()
    assert found.shape == (len(case[0]), max(1, varying))
    np.testing.assert_allclose(found.std(0), 1 if varying else 0, rtol=1e-4)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-5)
