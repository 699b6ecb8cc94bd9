"""The table at the end of stage 2, and what W&B is told of each validation graph."""

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
    """The last and the best epoch, as aligned text; the time of all epochs in the corner.

    Args:
        history: a row an epoch.
        validation: ``{"best": {"epoch": ...}, "last": {...}}``; either may be empty.
        metric: that epochs are compared by, such as ``tau``.
    """
    wanted = [(f"validation_{metric}", metric, "{:.4f}"), *COLUMNS]
    columns = [one for one in wanted if one[0] in history.columns]
    total = duration(float(history["seconds"].sum()))
    rows = []
    for name in ("last", "best"):
        epoch = validation[name].get("epoch")
        found = history.filter(pl.col("epoch") == epoch) if epoch is not None else None
        if found is not None and len(found):
            row = found.row(0, named=True)
            cells = [
                form.format(row[key]) if row[key] is not None else "-" for key, _, form in columns
            ]
            rows.append([f"{name} epoch, {epoch:g}", *cells])
    return table(
        rows, [f"{counted(len(history), 'epoch')}, {total}", *(title for _, title, _ in columns)]
    )


def log_graphs(tracker: Tracker, validation: Mapping[str, Any], metric: str) -> None:
    """Tell W&B the final numbers and, as a table, each validation graph's."""
    tracker.summarize({f"{name}_{metric}": one.get(metric) for name, one in validation.items()})
    tracker.summarize({f"{name}_epoch": one.get("epoch") for name, one in validation.items()})
    each = {name: one.get("graphs", {}) for name, one in validation.items()}
    names = sorted(set().union(*each.values()))
    columns = {f"{name}_{metric}": [one.get(n) for n in names] for name, one in each.items()}
    schema = {"graph": pl.String, **dict.fromkeys(columns, pl.Float64)}
    tracker.table("graphs", pl.DataFrame({"graph": names, **columns}, schema))
