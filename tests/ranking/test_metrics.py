"""Metrics against scipy and against loops over all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from lib.ranking.metrics import (
    GLUE,
    SPEEDUP,
    gains,
    kendall_tau,
    mean_metrics,
    tile_score,
    top_k_slowdown,
)

TIED = st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), max_size=14)


def pairs(scores, runtimes):
    """The signs of (score, runtime) differences of each pair."""
    for i in range(len(scores)):
        for j in range(i):
            yield np.sign(scores[i] - scores[j]), np.sign(runtimes[i] - runtimes[j])


def columns(rows) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(rows, np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(TIED)
@settings(max_examples=100, deadline=None)
def test_tau_b_with_ties(rows):
    scores, runtimes = columns(rows)
    signs = list(pairs(scores, runtimes))
    ordered = [sum(s[side] != 0 for s in signs) for side in (0, 1)]
    found = kendall_tau(scores, runtimes)
    if 0 in ordered:
        assert found == 0
    else:
        assert found == pytest.approx(sum(a * b for a, b in signs) / math.sqrt(math.prod(ordered)))
        assert found == pytest.approx(stats.kendalltau(scores, runtimes).statistic)


def test_nanoseconds_that_single_precision_cannot_tell_apart():
    runtimes = np.array([2**40, 2**40 + 1, 2**40 + 2])
    assert kendall_tau(np.array([1.0, 2.0, 3.0]), runtimes) == pytest.approx(1)


@given(TIED, st.integers(1, 16))
@settings(max_examples=80, deadline=None)
def test_top_k_and_tile_score(rows, k):
    assume(rows)
    scores, runtimes = columns(rows)
    ranked = sorted(range(len(scores)), key=lambda i: (scores[i], i))  # ties by position
    best = min(runtimes[i] for i in ranked[:k]) / min(runtimes)
    assert top_k_slowdown(scores, runtimes, k) == pytest.approx(best - 1)
    assert tile_score(scores, runtimes, k) == pytest.approx(2 - best)


@pytest.mark.parametrize("metric", [kendall_tau, lambda s, r: top_k_slowdown(s, r, 1), tile_score])
@pytest.mark.parametrize(
    ("scores", "runtimes"),
    [
        ([1, 2], [1, 2, 3]),
        ([[1], [2]], [[1], [2]]),
        ([1, np.nan], [1, 2]),
        ([1, 2], [1, np.inf]),
    ],
)
def test_what_is_refused(metric, scores, runtimes):
    with pytest.raises(ValueError, match=r"expected two equal lengths|finite"):
        metric(np.array(scores), np.array(runtimes))


@pytest.mark.parametrize(
    ("scores", "own", "pick"),
    [
        ([3, 1, 2, 4], 0, 1),
        ([1, 1, 1, 4], 2, 2),  # the compiler's own is as good as any
        ([1, 1, 1, 4], 3, 0),  # it is not: the first
        ([2, 3, 4, 1], 0, 3),
        ([2, 3, 1, 4], 0, 2),
    ],
)
def test_what_a_pick_gains_over_the_compilers_own(scores, own, pick):
    runtimes = np.array([1000, 800, 995, 1020])
    found = gains(np.array(scores), runtimes, own)
    ratio = runtimes[own] / runtimes[pick]
    assert found["log_speedup"] == pytest.approx(np.log(ratio))
    assert found["best_log_speedup"] == pytest.approx(np.log(runtimes[own] / 800))


def test_the_mean_speedup_is_geometric_and_shown_as_a_change():
    rows = [gains(np.array([1, 0]), np.array([own, 100]), 0) for own in (200, 50, 100.5, 100)]
    mean = mean_metrics(rows)
    assert SPEEDUP.plain(mean["log_speedup"]) == "0.1%"  # (2 * 0.5 * 1.005 * 1) ** (1 / 4)
    assert SPEEDUP.plain(rows[0]["log_speedup"]) == "100.0%"
    assert SPEEDUP.text(rows[1]["log_speedup"], signed=True) == f"−50.0{GLUE}%"
    assert SPEEDUP.plain(-0.0004) == "0.0%" and SPEEDUP.text(-0.0004) == f"0.0{GLUE}%"
