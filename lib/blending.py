"""Which folds are blended, and on what scale their scores are averaged."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy import stats


def choose_folds(validation: Mapping[int, float], count: int) -> list[int]:
    """The ``count`` folds of highest validation score, best first (TGraph paper, section 2.4.3).

    Training a fold fails now and then; leaving the worst one out is the cure. Ties go to the
    lower number.
    """
    return sorted(validation, key=lambda fold: (-validation[fold], fold))[:count]


def plain(scores: np.ndarray) -> np.ndarray:
    """The scores as they are: the hinge loss gives all networks one scale, a margin of 1."""
    return scores


def standardized(scores: np.ndarray) -> np.ndarray:
    """Zero mean and unit standard deviation; all zero if the scores are all equal."""
    centred = scores - scores.mean()
    spread = centred.std()
    return centred / spread if spread > 0 else np.zeros_like(centred)


def min_max(scores: np.ndarray) -> np.ndarray:
    """From 0 to 1; all zero if the scores are all equal."""
    lowest, spread = scores.min(), np.ptp(scores)
    return (scores - lowest) / spread if spread > 0 else np.zeros(len(scores))


def ranks(scores: np.ndarray) -> np.ndarray:
    """1 to c, equal scores sharing the mean of their ranks."""
    return stats.rankdata(scores)


# By the name that the setting `blending` gives them. Each takes one network's scores of one
# graph's configurations, (c,) float64, and returns as many.
METHODS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": plain,
    "standardized": standardized,
    "min-max": min_max,
    "rank": ranks,
}
