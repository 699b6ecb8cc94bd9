"""How good a ranking is: Kendall's tau, ordered-pair accuracy, top-k slowdown, the tile score.

Everywhere ``scores`` are predictions where lower means faster, ``runtimes`` are measured, and
both are one-dimensional arrays over the configurations of one graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats


def kendall_tau(scores: np.ndarray, runtimes: np.ndarray) -> float:
    """Kendall's tau-b, in [-1, 1]; 1 is a perfect ranking. O(n log n).

    Equals TGraph's equation 9 wherever nothing is tied; with ties it is what Kaggle scored
    (``scipy.stats.kendalltau``). Where either side is constant, or there are fewer than two
    configurations, no pair is ordered and tau is 0.

    Raises:
        ValueError: for unequal lengths or values that are not finite.
    """
    scores, runtimes = _checked(scores, runtimes)
    if len(scores) < 2:
        return 0.0
    tau = float(stats.kendalltau(scores, runtimes).statistic)
    return 0.0 if np.isnan(tau) else tau


def ordered_pair_accuracy(scores: np.ndarray, runtimes: np.ndarray) -> float:
    """Share of the pairs with different runtimes that the scores order rightly, in [0, 1].

    A pair with equal scores counts one half (a coin is thrown). 0.5 if no pair is ordered.
    Derived from tau-b and the numbers of ties, so O(n log n) as well.
    """
    scores, runtimes = _checked(scores, runtimes)
    pairs = len(scores) * (len(scores) - 1) // 2
    tied_scores, tied_runtimes = _tied_pairs(scores), _tied_pairs(runtimes)
    if pairs == tied_runtimes:
        return 0.5
    difference = kendall_tau(scores, runtimes) * np.sqrt(
        float(pairs - tied_scores) * float(pairs - tied_runtimes)
    )
    return float(0.5 + 0.5 * difference / (pairs - tied_runtimes))


def top_k_slowdown(scores: np.ndarray, runtimes: np.ndarray, k: int) -> float:
    """How much slower the best of the k predicted fastest is than the true fastest; 0 is perfect.

    Ties in the scores are broken by position. Runtimes must be positive.
    """
    return _best_of_top(scores, runtimes, k) - 1.0


def tile_score(scores: np.ndarray, runtimes: np.ndarray, k: int = 5) -> float:
    """M_tile of TGraph's equation 10: 2 - (best of the top k) / (best of all)."""
    return 2.0 - _best_of_top(scores, runtimes, k)


def random_best(runtimes: np.ndarray, k: int) -> float:
    """The best runtime to expect of ``k`` configurations drawn at random, over the best of all.

    The i-th fastest of n is the best of a draw with probability C(n - i - 1, k - 1) / C(n, k).
    """
    ordered = np.sort(runtimes)
    count, k = len(ordered), min(k, len(ordered))
    place = np.arange(1, count - k + 1)
    ratios = np.concatenate([[k / count], (count - k - place + 1) / (count - place)])
    return float(np.cumprod(ratios) @ ordered[: count - k + 1] / ordered[0])


def tile_metrics(scores: np.ndarray, runtimes: np.ndarray) -> dict[str, float]:
    """Every tile metric of one kernel, by name."""
    return {
        "tile_score": tile_score(scores, runtimes),
        "tau": kendall_tau(scores, runtimes),
        **{f"top_{k}_slowdown": top_k_slowdown(scores, runtimes, k) for k in (1, 5, 10)},
    }


def ranking_metrics(scores: np.ndarray, runtimes: np.ndarray) -> dict[str, float]:
    """Every layout metric of one graph, by name."""
    return {
        "tau": kendall_tau(scores, runtimes),
        "ordered_pair_accuracy": ordered_pair_accuracy(scores, runtimes),
        **{f"top_{k}_slowdown": top_k_slowdown(scores, runtimes, k) for k in (1, 5, 10)},
    }


def mean_metrics(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over the graphs that have it, every graph counting the same."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: float(np.mean([row[key] for row in rows if key in row])) for key in keys}


def _best_of_top(scores: np.ndarray, runtimes: np.ndarray, k: int) -> float:
    scores, runtimes = _checked(scores, runtimes)
    if not len(scores) or k < 1 or runtimes.min() <= 0:
        raise ValueError("needs at least one configuration, k >= 1 and positive runtimes")
    top = np.argsort(scores, kind="stable")[:k]
    return float(runtimes[top].min() / runtimes.min())


def _tied_pairs(values: np.ndarray) -> int:
    counts = np.unique(values, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _checked(scores: np.ndarray, runtimes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scores, runtimes = np.asarray(scores), np.asarray(runtimes)
    if scores.shape != runtimes.shape or scores.ndim != 1:
        raise ValueError(f"shapes {scores.shape} and {runtimes.shape}: expected two equal lengths")
    if not (np.isfinite(scores).all() and np.isfinite(runtimes).all()):
        raise ValueError("scores and runtimes must be finite")
    return scores, runtimes
