"""What stage 3 scores of a kind of collections, and what it tells of it at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from torch import nn

from lib.cache.reader import Cache
from lib.files.named import named
from lib.files.terminal import table
from lib.runs.tracking import Tracker
from lib.settings import Settings
from lib.systems import SYSTEMS


@dataclass(frozen=True)
class Scoring:
    """How the collections of a kind are scored.

    Attributes:
        to_score: (cache, fold, settings) -> what one fold scores.
        frames: (network, cache, those, settings) -> a frame of scores of each graph or task.
        counts: what the table at the end counts of each split, by heading; the last are scores.
    """

    to_score: Callable[[Cache, int, Any], list[Any]]
    frames: Callable[[nn.Module, Cache, Any, Any], Iterator[pl.DataFrame]]
    counts: dict[str, pl.Expr]


def scoring_of(settings: Settings) -> Scoring:
    """How the collection that settings are of is scored."""
    return named(SYSTEMS[settings.kind].infer)


def split_counts(scores: pl.DataFrame, counts: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """A row a split: what there is to count of it, by heading."""
    return scores.group_by("split", maintain_order=True).agg(**counts)


def summary_table(scores: pl.DataFrame, seconds: float, counts: Mapping[str, pl.Expr]) -> str:
    """What was scored in each split, as aligned text, and the rate over all.

    Args:
        scores: stage 3's.
        seconds: that scoring took.
        counts: see :class:`Scoring`.
    """
    rows = [
        [row["split"], *(f"{row[name]:,}" for name in counts)]
        for row in split_counts(scores, counts).iter_rows(named=True)
    ]
    rate = f"{len(scores) / max(seconds, 1e-9):,.0f} scores a second"
    return table(rows, ["", *counts]) + f"\n{rate}"


def log_splits(
    tracker: Tracker, scores: pl.DataFrame, seconds: float, counts: Mapping[str, pl.Expr]
) -> None:
    """Tell W&B the same, as a table and final numbers."""
    tracker.table("splits", split_counts(scores, counts))
    rate = len(scores) / max(seconds, 1e-9)
    tracker.summarize({"scores": len(scores), "scores_per_second": rate})
