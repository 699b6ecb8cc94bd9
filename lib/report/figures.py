"""The report's figures: what each figure shows is said where it is made."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from markupsafe import Markup

from lib.ranking.kinds import Kind
from lib.ranking.metrics import Metric
from lib.report.svg import Figure, Scale, number, scale_over, shortened

WIDE, NARROW = 860.0, 390.0
PANEL = (370.0, 250.0)
SMALL_PANEL = (330.0, 250.0)  # three of them stand in a row
COLOURS = 8  # of folds; the ninth has the first fold's
POINTS = 1500  # of a cloud; more would only make the file larger


def learning_curve(
    histories: Mapping[int, pl.DataFrame], column: str, name: str, log: bool = False
) -> Figure | None:
    """A column of the histories by epoch: each fold a line, their mean a heavy one.

    ``None`` if no history has it.
    """
    curves = {}
    for fold, frame in histories.items():
        if column in frame.columns:
            finite = frame.select("epoch", column).drop_nulls()
            finite = finite.filter(pl.col(column).is_finite())
            if len(finite):
                curves[fold] = (finite["epoch"].to_list(), finite[column].to_list())
    if not curves:
        return None
    figure = Figure(*PANEL, f"{name} by epoch, a line a fold")
    right, top, bottom = PANEL[0] - 6, 28.0, PANEL[1] - 38
    y = scale_over([v for _, values in curves.values() for v in values], bottom, top, log)
    left = _room_for_labels(y)
    last = max(max(epochs) for epochs, _ in curves.values())
    x = Scale(0 if last > 1 else 0.5, last, left, right)
    figure.y_axis(y, left, right, name + (" (log)" if y.log else ""))
    figure.x_axis(x, bottom, bottom, "epoch")
    for fold, (epochs, values) in curves.items():
        points = [(x(e), y(v)) for e, v in zip(epochs, values, strict=True)]
        colour = f"fold fold-{fold % COLOURS}"
        figure.path(colour, points, f"fold {fold}: {number(float(f'{values[-1]:.4g}'))} at the end")
    if len(curves) > 1:
        common = sorted(set.intersection(*(set(epochs) for epochs, _ in curves.values())))
        by_epoch = [dict(zip(*curve, strict=True)) for curve in curves.values()]
        points = [(x(e), y(float(np.mean([c[e] for c in by_epoch])))) for e in common]
        figure.path("mean", points, "mean of the folds")
    return figure


def by_graph(
    metrics: Mapping[str, Mapping[str, float]], kind: Kind, width: float, most: int
) -> Figure:
    """The number that counts of each graph, best first, beside its baseline and its ceiling.

    Args:
        metrics: each graph's numbers.
        width: of the figure; names stand above their rows where it is narrow.
        most: graphs to show; if there are more, evenly spaced ones from best to worst.
    """
    main = kind.main
    names = ranked(metrics, main)
    if len(names) > most:
        names = [names[i] for i in np.linspace(0, len(names) - 1, most).round().astype(int)]
    narrow = width <= NARROW
    row, top, foot = (36.0 if narrow else 24.0), 6.0, 42.0
    left = 12.0 if narrow else 306.0
    figure = Figure(width, top + row * len(names) + foot, f"{main.name} of each graph")
    keys = (main.key, kind.baseline.key, kind.ceiling.key)
    values = [metrics[name][key] for name in names for key in keys if key in metrics[name]]
    scale = scale_over([*values, 0.0] if main.least is not None else values, left, width - 60)
    bottom = figure.height - foot
    figure.x_axis(scale, top, bottom, main.name + _direction(main), 5 if narrow else 6)
    if scale.low < 0 < scale.high:
        figure.line("zero", scale(0), top, scale(0), bottom)
    for place, name in enumerate(names):
        y = top + row * place + (24.0 if narrow else 12.0)
        text = shortened(name, 46 if narrow else 44)
        figure.text("label", 4 if narrow else 0, y - 9 if narrow else y + 4, text)
        _graph_row(figure, scale, metrics[name], kind, name, y)
        figure.text("tick", width - 4, y + 4, main.text(metrics[name][main.key]), "end")
    return figure


def rank_against_runtime(scores: np.ndarray, runtimes: np.ndarray, name: str) -> Figure:
    """Measured runtime of each configuration by its predicted rank; a perfect order is a line.

    Args:
        scores: (c,) predictions, lower meaning faster.
        runtimes: (c,) measured, in nanoseconds.
        name: the graph's.
    """
    figure = Figure(*SMALL_PANEL, f"Measured runtime by predicted rank, {name}")
    right, top, bottom = SMALL_PANEL[0] - 6, 28.0, SMALL_PANEL[1] - 38
    unit, divisor = time_unit(float(np.median(runtimes)))
    order = np.argsort(scores, kind="stable")
    measured, best = runtimes[order] / divisor, np.sort(runtimes) / divisor
    y = scale_over(list(measured), bottom, top, log=bool(measured.max() > 20 * measured.min()))
    left = _room_for_labels(y)
    x = Scale(0 if len(order) > 1 else 0.5, len(order), left, right)
    figure.y_axis(y, left, right, f"measured runtime, {unit}" + (" (log)" if y.log else ""))
    figure.x_axis(x, bottom, bottom, "predicted rank, 1 = fastest")
    places = np.arange(1, len(order) + 1)
    shown = np.unique(np.linspace(0, len(order) - 1, min(POINTS, len(order))).round().astype(int))
    figure.path("ideal", [(x(places[i]), y(best[i])) for i in shown], "a perfect ranking")
    for i in shown:
        title = f"configuration {order[i]}: rank {places[i]}, {measured[i]:.4g} {unit}"
        figure.dot("cloud", x(places[i]), y(measured[i]), 3.2 if len(shown) < 200 else 2, title)
    return figure


def bar(share: float, label: str, look: str = "model") -> Markup:
    """A bar of a table's row, ``share`` of its place wide."""
    figure = Figure(200, 10, label, stretched=True)
    figure.add("rect", "track", x=0, y=1, width=200, height=8, rx=2)
    width = max(1.5, 200 * min(1.0, share))
    figure.add("rect", f"mark {look}", label, x=0, y=1, width=width, height=8, rx=2)
    return figure.render("bar")


def ranked(metrics: Mapping[str, Mapping[str, float]], main: Metric) -> list[str]:
    """Names of graphs, best first; equal ones by name."""
    sign = -1 if main.higher_is_better else 1
    return sorted(metrics, key=lambda name: (sign * metrics[name][main.key], name))


def time_unit(nanoseconds: float) -> tuple[str, float]:
    """The unit that a runtime is read in, and how many nanoseconds it has."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return unit, size
    return "ns", 1.0


def _room_for_labels(scale: Scale) -> float:
    """How far from the left an axis must stand for its labels to fit."""
    return 14.0 + 7.5 * max((len(number(tick)) for tick in scale.ticks()), default=0)


def _graph_row(
    figure: Figure, scale: Scale, metrics: Mapping[str, float], kind: Kind, name: str, y: float
) -> None:
    main, value = kind.main, metrics[kind.main.key]
    if kind.baseline.key in metrics:
        baseline = metrics[kind.baseline.key]
        better = (value > baseline) == main.higher_is_better
        figure.line("gap win" if better else "gap loss", scale(baseline), y, scale(value), y)
    if kind.ceiling.key in metrics:
        title = f"{name}: {kind.ceiling.name} {main.text(metrics[kind.ceiling.key])}"
        x = scale(metrics[kind.ceiling.key]) - 1.5
        figure.add("rect", "mark ceiling", title, x=x, y=y - 7, width=3, height=14, rx=1)
    if kind.baseline.key in metrics:
        title = f"{name}: {kind.baseline.name} {main.text(metrics[kind.baseline.key])}"
        figure.diamond("mark baseline", scale(metrics[kind.baseline.key]), y, 5, title)
    figure.dot("mark model", scale(value), y, 5, f"{name}: network {main.text(value)}")


def _direction(metric: Metric) -> str:
    return " (higher is better →)" if metric.higher_is_better else " (← lower is better)"
