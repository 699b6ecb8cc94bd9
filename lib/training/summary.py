"""The table at the end of stage 2, and the last numbers for W&B."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from lib.files.terminal import counted, duration, table
from lib.runs.tracking import Tracker

COLUMNS = (  # of the history, title, format; those that a history lacks are left out
    ("loss", "loss", "{:.3f}"),
    ("validation_top_1_slowdown", "top-1", "{:.1%}"),
    ("validation_top_5_slowdown", "top-5", "{:.1%}"),
    ("validation_top_10_slowdown", "top-10", "{:.1%}"),
    ("configurations_per_second", "configurations/s", "{:,.0f}"),
)


def summary_table(history: pl.DataFrame, validation: Mapping[str, Any], metric: str) -> str:
    """Return the last and the best epoch, as aligned text; the time of all epochs in the corner.

    ``metric`` is what epochs are compared by; either of the two validations may be empty.
    """
    possible = [(f"validation_{metric}", metric, "{:.4f}"), *COLUMNS]
    columns = [column for column in possible if column[0] in history.columns]
    total = duration(float(history["seconds"].sum()))
    rows = []
    for name in ("last", "best"):
        epoch = validation[name].get("epoch")
        epoch_rows = history.filter(pl.col("epoch") == epoch) if epoch is not None else None
        if epoch_rows is not None and len(epoch_rows):
            row = epoch_rows.row(0, named=True)
            cells = [
                form.format(row[key]) if row[key] is not None else "-" for key, _, form in columns
            ]
            rows.append([f"{name} epoch, {epoch:g}", *cells])
    return table(
        rows, [f"{counted(len(history), 'epoch')}, {total}", *(title for _, title, _ in columns)]
    )


def log_validations(tracker: Tracker, validation: Mapping[str, Any], metric: str) -> None:
    """Log the last and the best validation to W&B."""
    for key in (metric, "epoch"):
        tracker.summarize({f"{name}_{key}": entry.get(key) for name, entry in validation.items()})
