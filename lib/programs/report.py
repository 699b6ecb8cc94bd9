"""What a report shows of predicted latencies: against measured ones, and errors by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from lib.files.results import SPLIT_OF
from lib.programs.metrics import LATENCY_METRICS, NOISE
from lib.programs.predictions import BLENDED, read_blended
from lib.programs.settings import ProgramCollection
from lib.report.experiment import Experiment
from lib.report.figures import PANEL, POINTS
from lib.report.svg import Figure, Scale, number, scale_over
from lib.report.tables import Table

BINS = 10  # of latencies, equally many in each
MILLISECONDS = 1e3
FACTOR_TWO = 2.0


def content(experiment: Experiment) -> dict[str, Any]:
    """What a report has beside that of other kinds: see ``report`` of :mod:`lib.systems`."""
    return {"latencies": shown(experiment)}


def shown(experiment: Experiment) -> list[dict[str, Any]]:
    """Figures and tables of each section: ``section, figures, table``; none of other kinds."""
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


def _drawn(rows: pl.DataFrame) -> list[str]:
    """The figures of some predictions; none without any."""
    if rows.is_empty():
        return []
    predicted, measured = (
        rows[name].cast(pl.Float64).to_numpy() for name in ("prediction", "latency")
    )
    return [against(predicted, measured).render(), errors(predicted, measured).render()]


def group_table(groups: dict[str, dict[str, dict[str, float]]]) -> Table:
    """Errors over pairs: all of them, each device's, each operator's, each class of work's."""
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


def against(predicted: np.ndarray, measured: np.ndarray) -> Figure:
    """Predicted latency against the measured one, both in milliseconds, with lines of a factor 2.

    Args:
        predicted, measured: (n,) seconds.
    """
    figure = Figure(*PANEL, "Predicted against measured latency")
    x, y, left = _axes(figure, measured * MILLISECONDS, predicted * MILLISECONDS)
    figure.y_axis(y, left, x.end, "predicted, ms (log)")
    figure.x_axis(x, y.end, y.start, "measured, ms (log)")
    for factor in (1.0, FACTOR_TWO, 1 / FACTOR_TWO):
        look = "ideal" if factor == 1 else "grid"
        ends = [max(x.low, y.low / factor), min(x.high, y.high / factor)]
        figure.path(look, [(x(end), y(end * factor)) for end in ends])
    for k in _evenly(len(measured)):
        figure.dot("cloud", x(measured[k] * MILLISECONDS), y(predicted[k] * MILLISECONDS), 1.6)
    return figure


def errors(predicted: np.ndarray, measured: np.ndarray) -> Figure:
    """Relative error over latency: median and quartiles of tenths of the programs.

    Args:
        predicted, measured: (n,) seconds.
    """
    figure = Figure(*PANEL, "Relative error by measured latency: median and quartiles")
    error = np.abs(predicted / measured - 1)
    bins = [part for part in np.array_split(np.argsort(measured, kind="stable"), BINS) if len(part)]
    centres = [float(np.median(measured[part])) * MILLISECONDS for part in bins]
    quartiles = [np.quantile(error[part], (0.25, 0.5, 0.75)) for part in bins]
    right, top, bottom = PANEL[0] - 6, 28.0, PANEL[1] - 38
    y = scale_over([0.0, *(float(levels[2]) for levels in quartiles)], bottom, top)
    x, left = scale_over(centres, 58.0, right, log=True), 58.0
    figure.y_axis(y, left, right, "|predicted − measured| / measured")
    figure.x_axis(x, top, bottom, "measured, ms" + (" (log)" if x.log else ""))
    for centre, (low, middle, high) in zip(centres, quartiles, strict=True):
        figure.line("whisker model", x(centre), y(low), x(centre), y(high))
        title = f"about {number(float(f'{centre:.3g}'))} ms: median {middle:.1%}"
        figure.dot("mark model", x(centre), y(middle), 4, title)
    figure.path("mean", [(x(c), y(float(q[1]))) for c, q in zip(centres, quartiles, strict=True)])
    return figure


def _axes(figure: Figure, x: np.ndarray, y: np.ndarray) -> tuple[Scale, Scale, float]:
    left, right, top, bottom = 58.0, figure.width - 6, 28.0, figure.height - 38
    low, high = float(min(x.min(), y.min())) / 1.15, float(max(x.max(), y.max())) * 1.15
    return Scale(low, high, left, right, True), Scale(low, high, bottom, top, True), left


def _evenly(count: int) -> Sequence[int]:
    return np.unique(np.linspace(0, count - 1, min(POINTS, count)).round().astype(int)).tolist()
