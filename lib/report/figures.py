"""The report's figures: matplotlib draws them, and they stand in the page as images.

A dark page turns their colours round. Text stays text.
"""

from __future__ import annotations

import io
import re
import warnings
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from markupsafe import Markup

from lib.ranking.measures import Measures
from lib.ranking.metrics import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 860.0  # points
PANEL = (370.0, 250.0)
POINTS = 1500  # of a cloud; more would only make the file larger
TEXT, SOFT, RULE, PAGE = "#1f1b16", "#6a635b", "#e4dfd8", "#fbfaf8"  # as in page.css
FOLDS = (
    *("#2454c9", "#c2570c", "#0b7a5b", "#8b3fb8"),
    *("#c02759", "#7a6a00", "#0f7f9c", "#7b4a2e"),
)
COLOURS = len(FOLDS)  # the ninth fold has the first one's
MODEL, BASELINE, CEILING = FOLDS[:3]
STYLE = Path(__file__).with_name("report.mplstyle")
# What XML has no way to write: control characters, and halves of surrogate pairs.
UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def picture(
    width: float,
    height: float,
    label: str,
    draw: Callable[[Axes], object],
    margins: tuple[float, float, float, float] = (52.0, 40.0, 14.0, 24.0),
) -> Markup:
    """Return an ``<img>`` element for a page, which can neither run nor load anything.

    Args:
        width, height: in points.
        label: a sentence for who cannot see the figure.
        draw: draws into the axes that it is given.
        margins: left, bottom, right and top of the axes, in points.
    """
    import matplotlib  # late: it takes half a second, which only a report has
    from matplotlib.figure import Figure

    style = matplotlib.rc_params_from_file(STYLE, use_default_template=False)
    with matplotlib.rc_context({**style, "svg.hashsalt": "report"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its own font lacks a letter, which browsers have
        figure = Figure((width / 72, height / 72))
        left, bottom, right, top = margins
        size = (width - left - right) / width, (height - bottom - top) / height
        axes = figure.add_axes((left / width, bottom / height, *size))
        draw(axes)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    data = b64encode(drawn.getvalue().encode()).decode()
    element = Markup('<img class="figure" alt="{}" width="{:g}" src="{}">')
    return element.format(label, width, f"data:image/svg+xml;base64,{data}")


def learning_curve(histories: Mapping[int, pl.DataFrame], column: str, name: str) -> Markup | None:
    """Return a column of the histories by epoch: a line for each fold, a heavy one for their mean.

    ``None`` if no history has the column.
    """
    curves = {}
    for fold, frame in histories.items():
        if column in frame.columns:
            finite = frame.select("epoch", column).drop_nulls()
            finite = finite.filter(pl.col(column).is_finite())
            if len(finite):
                curves[fold] = dict(finite.iter_rows())
    if not curves:
        return None

    def draw(axes: Axes) -> None:
        """Draw a line a fold, and their mean."""
        for fold, curve in curves.items():
            axes.plot(curve.keys(), curve.values(), color=FOLDS[fold % COLOURS], linewidth=1.4)
        if len(curves) > 1:
            common = sorted(set.intersection(*map(set, curves.values())))
            means = [np.mean([curve[epoch] for curve in curves.values()]) for epoch in common]
            axes.plot(common, means, color=TEXT, linewidth=2.6)
        axes.set_title(name)
        axes.set_xlabel("epoch")
        axes.set_xlim(left=0)
        label_ticks(axes)
        axes.locator_params(axis="x", integer=True)

    return picture(*PANEL, f"{name} by epoch, a line a fold", draw)


def by_graph(metrics: Mapping[str, Mapping[str, float]], kind: Measures, most: int) -> Markup:
    """Return the number that counts of each graph, best first, with its baseline and ceiling.

    Args:
        metrics: each graph's numbers.
        kind: which numbers count.
        most: graphs to show; if there are more, evenly spaced ones from best to worst.
    """
    main = kind.main
    names = ranked(metrics, main)
    names = [names[place] for place in evenly(len(names), most)]
    keys = (main.key, kind.baseline.key, kind.ceiling.key)
    values, baselines, ceilings = (
        {y: metrics[name][key] for y, name in enumerate(names) if key in metrics[name]}
        for key in keys
    )

    def draw(axes: Axes) -> None:
        """Draw a row a graph."""
        better = [(values[y] > low) == main.higher_is_better for y, low in baselines.items()]
        colours = [MODEL if won else BASELINE for won in better]
        ends = list(baselines.values()), [values[y] for y in baselines]
        axes.hlines(list(baselines), *ends, colors=colours, linewidth=3, alpha=0.4)
        hollow = {"markerfacecolor": PAGE, "markeredgewidth": 2.2}
        for of, mark, colour, look in (
            (ceilings, "|", CEILING, {"markersize": 14, "markeredgewidth": 3}),
            (baselines, "D", BASELINE, {"markersize": 7, **hollow}),
            (values, "o", MODEL, {"markersize": 9}),
        ):
            axes.plot(list(of.values()), list(of), mark, color=colour, **look)
        if main.least is not None:
            axes.axvline(0, color=SOFT, linewidth=1, linestyle=":")
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        shown = [shortened(UNWRITABLE.sub("\ufffd", name), 44) for name in names]
        axes.set_yticks(range(len(names)), shown)
        axes.tick_params(axis="y", labelcolor=TEXT)
        place = {"transform": axes.get_yaxis_transform(), "va": "center_baseline"}
        for y, value in values.items():
            axes.text(1.02, y, main.text(value), color=SOFT, **place)
        way = " (higher is better →)" if main.higher_is_better else " (← lower is better)"
        axes.set_xlabel(main.name + way)
        axes.locator_params(axis="x", nbins=6)
        axes.xaxis.set_major_formatter(number_text)

    height = 48 + 24.0 * len(names)
    return picture(WIDE, height, f"{main.name} of each {kind.item}", draw, (306.0, 42.0, 60.0, 6.0))


def bar(share: float, label: str) -> Markup:
    """Return a bar for a row of a table, ``share`` of its place wide."""
    element = Markup('<progress value="{:.4f}" aria-label="{}" title="{}"></progress>')
    return element.format(min(1.0, share), label, label)


def ranked(metrics: Mapping[str, Mapping[str, float]], main: Metric) -> list[str]:
    """Return the names of graphs, best first; equal ones by name."""
    sign = -1 if main.higher_is_better else 1
    return sorted(metrics, key=lambda name: (sign * metrics[name][main.key], name))


def evenly(count: int, most: int) -> list[int]:
    """Return places from 0 to ``count`` - 1, evenly spaced if there are more than ``most``."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int)).tolist()


def label_ticks(axes: Axes) -> None:
    """Give both axes five ticks or so, labelled by few digits."""
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "linear":
            axes.locator_params(axis=axis.axis_name, nbins=5)
        axis.set_major_formatter(number_text)
        axis.set_minor_formatter("")


def number_text(value: float, _: object = None) -> str:
    """Return the label of a tick: few digits, a true minus sign."""
    return f"{value:,.6g}".replace("-", "−")


def shortened(text: str, most: int) -> str:
    """Return ``text`` with its middle left out where it is longer than ``most`` characters."""
    if len(text) <= most:
        return text
    head = (most - 1) * 3 // 5
    return f"{text[:head]}…{text[-(most - 1 - head) :]}"
