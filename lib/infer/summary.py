"""The table at the end of stage 3, and what W&B is told: what was scored, and how fast."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from lib.files.terminal import table
from lib.runs.tracking import Tracker


def split_counts(scores: pl.DataFrame, counts: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """A row a split: what there is to count of it, by heading."""
    return scores.group_by("split", maintain_order=True).agg(**counts)


def summary_table(scores: pl.DataFrame, seconds: float, counts: Mapping[str, pl.Expr]) -> str:
    """What was scored in each split, as aligned text, and the rate over all.

    Args:
        scores: stage 3's.
        seconds: that scoring took.
        counts: see :class:`lib.infer.scoring.Scoring`.
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
