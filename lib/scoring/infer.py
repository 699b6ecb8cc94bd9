"""Stage 3 of a kind of collections: what is scored, and the summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from torch import nn

from lib.cache.reader import Cache
from lib.files.named import named
from lib.files.terminal import table
from lib.settings import Settings
from lib.systems import SYSTEMS

# (network, cached graph, settings) -> (permutations, c) scores, see 03_infer.py
PermutedScores = Callable[[nn.Module, Any, Any], np.ndarray]


@dataclass(frozen=True)
class Infer:
    """The parts of stage 3, which scores the collections of a kind.

    Attributes:
        to_score: (cache, fold, settings) -> what one fold scores.
        frames: (network, cache, those, settings, :data:`PermutedScores`) -> a frame of scores for
            each graph or task.
        counts: what the table at the end counts of each split, by heading; the last are scores.
    """

    to_score: Callable[[Cache, int, Any], list[Any]]
    frames: Callable[[nn.Module, Cache, Any, Any, PermutedScores], Iterator[pl.DataFrame]]
    counts: dict[str, pl.Expr]


def infer_of(settings: Settings) -> Infer:
    """Return how the collection of some settings is scored."""
    return named(SYSTEMS[settings.kind].infer)


def summary_table(scores: pl.DataFrame, seconds: float, counts: Mapping[str, pl.Expr]) -> str:
    """Return counts of each split as aligned text, and the rate over all.

    Args:
        scores: stage 3's.
        seconds: that scoring took.
        counts: see :class:`Infer`.
    """
    of_splits = scores.group_by("split", maintain_order=True).agg(**counts)
    rows = [[name, *(f"{count:,}" for count in own)] for name, *own in of_splits.iter_rows()]
    rate = f"{len(scores) / max(seconds, 1e-9):,.0f} scores a second"
    return table(rows, ["", *counts]) + f"\n{rate}"
