"""Figures and tables of predicted latencies: against measured ones, and errors by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from markupsafe import Markup

from lib.files.results import SPLIT_OF
from lib.programs.metrics import LATENCY_METRICS, NOISE
from lib.programs.predictions import BLENDED, read_blended
from lib.programs.settings import ProgramCollection
from lib.report.experiment import Experiment
from lib.report.figures import (
    CEILING,
    MODEL,
    PANEL,
    POINTS,
    RULE,
    evenly,
    label_ticks,
    picture,
)
from lib.report.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MILLISECONDS = 1e3
FACTOR_TWO = 2.0


def content(experiment: Experiment) -> dict[str, Any]:
    """Return what only reports of latencies have: see ``report`` of :mod:`lib.systems`."""
    return {"latencies": shown(experiment)}


def shown(experiment: Experiment) -> list[dict[str, Any]]:
    """Return ``section, figures, table`` of each section; none of other kinds of collections."""
    found = ((name, experiment.metrics.get(name) or {}) for name in ("test", "validation"))
    groups = {name: metrics["groups"] for name, metrics in found if metrics.get("groups")}
    path = experiment.folder / ProgramCollection.table
    table = read_blended(path) if groups and path.exists() else pl.DataFrame(schema=BLENDED)
    return [
        {
            "section": name,
            "figure": against(table.filter(split=SPLIT_OF[name])) if len(table) else None,
            "table": group_table(parts),
        }
        for name, parts in groups.items()
    ]


def group_table(groups: dict[str, dict[str, dict[str, float]]]) -> Table:
    """Return errors over all pairs, and by device and by operator."""
    columns = (*LATENCY_METRICS, NOISE)
    rows = [
        [
            name,
            f"{int(group['pairs']):,}",
            *(metric.text(group.get(metric.key)) for metric in columns),
        ]
        for parts in groups.values()
        for name, group in parts.items()
    ]
    return Table(["", "latencies", *(metric.name for metric in columns)], rows)


def against(rows: pl.DataFrame) -> Markup:
    """Draw predicted latency against the measured one, in milliseconds, with lines of a factor 2.

    Args:
        rows: with ``latency`` and ``prediction`` in seconds.
    """
    rows = rows[evenly(len(rows), POINTS)]
    x, y = (rows[name].to_numpy() * MILLISECONDS for name in ("latency", "prediction"))
    ends = np.array([min(x.min(), y.min()) / 1.15, max(x.max(), y.max()) * 1.15])

    def draw(axes: Axes) -> None:
        """Draw the figure."""
        axes.plot(x, y, "o", color=MODEL, markersize=3, alpha=0.55)
        axes.plot(ends, ends, color=CEILING, linewidth=2)
        for factor in (FACTOR_TWO, 1 / FACTOR_TWO):
            axes.plot(ends, ends * factor, color=RULE, linewidth=1)
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        axes.set_title("predicted, ms (log)")
        axes.set_xlabel("measured, ms (log)")
        label_ticks(axes)

    return picture(*PANEL, "Predicted against measured latency", draw)
