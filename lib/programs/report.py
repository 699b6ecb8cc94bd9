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
    TEXT,
    evenly,
    label_ticks,
    picture,
    use_logarithm,
)
from lib.report.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 10  # of latencies, equally many in each
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
            "figures": _drawn(table.filter(split=SPLIT_OF[name])),
            "table": group_table(parts),
        }
        for name, parts in groups.items()
    ]


def _drawn(rows: pl.DataFrame) -> list[Markup]:
    """Return the figures of some predictions; none without any."""
    if rows.is_empty():
        return []
    predicted, measured = (
        rows[name].cast(pl.Float64).to_numpy() for name in ("prediction", "latency")
    )
    return [against(predicted, measured), errors(predicted, measured)]


def group_table(groups: dict[str, dict[str, dict[str, float]]]) -> Table:
    """Return errors over all pairs, and by device, by operator and by class of work."""
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


def against(predicted: np.ndarray, measured: np.ndarray) -> Markup:
    """Draw predicted latency against the measured one, in milliseconds, with lines of a factor 2.

    Args:
        predicted, measured: (n,) seconds.
    """
    shown = evenly(len(measured), POINTS)
    x, y = (values[shown] * MILLISECONDS for values in (measured, predicted))
    ends = np.array([min(x.min(), y.min()) / 1.15, max(x.max(), y.max()) * 1.15])

    def draw(axes: Axes) -> None:
        axes.plot(x, y, "o", color=MODEL, markersize=3, alpha=0.55)
        axes.plot(ends, ends, color=CEILING, linewidth=2)
        for factor in (FACTOR_TWO, 1 / FACTOR_TWO):
            axes.plot(ends, ends * factor, color=RULE, linewidth=1)
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        axes.set_title("predicted, ms (log)")
        axes.set_xlabel("measured, ms (log)")
        label_ticks(axes)

    return picture(*PANEL, "Predicted against measured latency", draw)


def errors(predicted: np.ndarray, measured: np.ndarray) -> Markup:
    """Draw relative error over latency: median and quartiles of tenths of the programs.

    Args:
        predicted, measured: (n,) seconds.
    """
    error = np.abs(predicted / measured - 1)
    bins = [part for part in np.array_split(np.argsort(measured, kind="stable"), BINS) if len(part)]
    centres = [float(np.median(measured[part])) * MILLISECONDS for part in bins]
    low, middle, high = np.array([np.quantile(error[part], (0.25, 0.5, 0.75)) for part in bins]).T

    def draw(axes: Axes) -> None:
        axes.vlines(centres, low, high, color=MODEL, linewidth=2.2, alpha=0.55)
        axes.plot(centres, middle, color=TEXT, linewidth=2.6)
        axes.plot(centres, middle, "o", color=MODEL, markersize=8)
        log = use_logarithm(axes, "x", centres)
        axes.set_ylim(bottom=0)
        axes.set_title("|predicted − measured| / measured")
        axes.set_xlabel("measured, ms" + (" (log)" if log else ""))
        label_ticks(axes)

    label = "Relative error by measured latency: median and quartiles"
    return picture(*PANEL, label, draw)
