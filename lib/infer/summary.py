"""The table at the end of stage 3, and what W&B is told: what was scored, and how fast."""

from __future__ import annotations

import polars as pl

from lib.files.terminal import table
from lib.runs.tracking import Tracker

COUNTS = ("graphs", "configurations", "permutations", "scores")


def split_counts(scores: pl.DataFrame) -> pl.DataFrame:
    """A row a split: graphs, configurations of them all, permutations at most, scores."""
    configurations = pl.struct("graph", "config").n_unique()
    return scores.group_by("split", maintain_order=True).agg(
        pl.col("graph").n_unique().alias("graphs"),
        configurations.alias("configurations"),
        pl.col("permutation").n_unique().alias("permutations"),
        pl.len().alias("scores"),
    )


def summary_table(scores: pl.DataFrame, seconds: float) -> str:
    """What was scored in each split, as aligned text, and the rate over all.

    Args:
        scores: stage 3's.
        seconds: that scoring took.
    """
    rows = [
        [row["split"], *(f"{row[name]:,}" for name in COUNTS)]
        for row in split_counts(scores).iter_rows(named=True)
    ]
    rate = f"{len(scores) / max(seconds, 1e-9):,.0f} scores a second"
    return table(rows, ["", *COUNTS]) + f"\n{rate}"


def log_splits(tracker: Tracker, scores: pl.DataFrame, seconds: float) -> None:
    """Tell W&B the same, as a table and final numbers."""
    tracker.table("splits", split_counts(scores))
    rate = len(scores) / max(seconds, 1e-9)
    tracker.summarize({"scores": len(scores), "scores_per_second": rate})
