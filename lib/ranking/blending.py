"""Which folds are blended, on what scale their scores are averaged, and the averaging."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

KEYS = ("graph", "config")


def choose_folds(validation: Mapping[int, float], count: int, higher_is_better: bool) -> list[int]:
    """The ``count`` folds of best validation score, best first (TGraph paper, section 2.4.3).

    Training a fold fails now and then; leaving the worst one out is the cure. Ties go to the
    lower number.
    """
    sign = -1 if higher_is_better else 1
    return sorted(validation, key=lambda fold: (sign * validation[fold], fold))[:count]


def plain(scores: np.ndarray) -> np.ndarray:
    """The scores as they are: the hinge loss gives all networks one scale, a margin of 1."""
    return scores


def standardized(scores: np.ndarray) -> np.ndarray:
    """Zero mean and unit standard deviation; all zero if the scores are all equal."""
    centred = scores - scores.mean()
    deviation = centred.std()
    return centred / deviation if deviation > 0 else np.zeros_like(centred)


# By the name that the setting `blending` gives them. Each takes one network's scores of one
# graph's configurations, (c,) float64, and returns as many.
METHODS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": plain,
    "standardized": standardized,
}


def blend(scores: Sequence[np.ndarray], method: str) -> np.ndarray:
    """Mean over networks of one graph's scores, (c,), on a scale that they share.

    Args:
        scores: (c,) of each network, lower meaning faster.
        method: a key of ``METHODS``.
    """
    return np.mean([METHODS[method](network_scores) for network_scores in scores], axis=0)


def blend_frames(frames: Sequence[pl.DataFrame], method: str = "mean") -> pl.DataFrame:
    """The same of many graphs at once: ``graph, config, score, variance``, sorted; the variance
    is that of the networks' scores, null of a single one.

    Args:
        frames: ``graph, config, score`` of each fold. They may hold different graphs.
        method: how a graph's scores come to one scale first, a key of ``METHODS``; the paper
            takes the plain ``mean``.
    """
    scale = METHODS[method]
    rows = pl.concat([_scaled(frame.select(*KEYS, "score"), scale) for frame in frames])
    score = pl.col("score")
    return rows.group_by(*KEYS).agg(score.mean(), score.var().alias("variance")).sort(*KEYS)


def _scaled(frame: pl.DataFrame, scale: Callable[[np.ndarray], np.ndarray]) -> pl.DataFrame:
    """Each graph's scores on the method's scale."""
    frame = frame.with_columns(pl.col("score").cast(pl.Float64))
    parts = frame.partition_by("graph")
    scaled = (part.with_columns(score=scale(part["score"].to_numpy())) for part in parts)
    return pl.concat([frame.clear(), *scaled])
