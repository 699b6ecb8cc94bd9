"""Blending: the selection of folds, the scale of their scores, and the mean over folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

KEYS = ("graph", "config")
ROUNDING = 1e-12  # of the range of a graph's scores


def choose_folds(validation: Mapping[int, float], count: int, higher_is_better: bool) -> list[int]:
    """Return the ``count`` folds of best validation score, best first (TGraph paper, 2.4.3).

    The training of a fold fails now and then, so the worst fold is left out. Ties go to the lower
    number.
    """
    sign = -1 if higher_is_better else 1
    return sorted(validation, key=lambda fold: (sign * validation[fold], fold))[:count]


def standardized(scores: np.ndarray) -> np.ndarray:
    """Return scores of zero mean and unit standard deviation; zeros if all scores are equal."""
    centred = scores - scores.mean()
    deviation = centred.std()
    return centred / deviation if deviation > 0 else np.zeros_like(centred)


# Methods by their names in the setting `blending`. Each maps one network's scores of one graph's
# configurations, (c,) float64, to as many scores.
METHODS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": lambda scores: scores,  # the hinge loss gives all networks one scale, a margin of 1
    "standardized": standardized,
}


def blend(scores: Sequence[np.ndarray], method: str) -> np.ndarray:
    """Return the mean over networks of one graph's scores, (c,), on a scale that they share.

    Args:
        scores: (c,) scores of each network; lower means faster.
        method: a key of ``METHODS``.
    """
    return np.mean([METHODS[method](network_scores) for network_scores in scores], axis=0)


def places_of(scores: np.ndarray, layouts_set: np.ndarray) -> np.ndarray:
    """Return each configuration's place in the order that is submitted, (c,) int64, fastest first.

    Of equal scores the one that sets fewer layouts comes first, then the earlier one. Scores count
    as equal if they differ by an error of rounding only.

    Args:
        scores: (c,) lower means faster.
        layouts_set: (c,) how many layouts each configuration sets.
    """
    equal = np.rint((scores - scores.min()) / (np.ptp(scores) or 1.0) / ROUNDING)
    order = np.lexsort((np.arange(len(scores)), layouts_set, equal))
    return np.argsort(order)


def blend_frames(frames: Sequence[pl.DataFrame], method: str = "mean") -> pl.DataFrame:
    """Return the blended scores of many graphs: ``graph, config, score, variance``, sorted.

    The variance is that of the networks' scores, null for a single network.

    Args:
        frames: ``graph, config, score`` of each fold. They may hold different graphs.
        method: the scale of a graph's scores, a key of ``METHODS``; the paper takes the plain
            ``mean``.
    """
    score, parts = pl.col("score"), []
    for frame in frames:
        scores = frame.select(*KEYS, score.cast(pl.Float64))
        parts.append(scores.clear())  # a frame may have no graph
        for part in scores.partition_by("graph"):
            parts.append(part.with_columns(score=METHODS[method](part["score"].to_numpy())))
    rows = pl.concat(parts)
    return rows.group_by(*KEYS).agg(score.mean(), score.var().alias("variance")).sort(*KEYS)
