"""The plot of a study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from lib.files.artifacts import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# study, horizontal axis, line, and what a line is called
PANELS = (
    ("inference", "permutations", "batch", lambda value: f"batch {value or 'all'}"),
    ("blending", "folds", "method", str),
)


def plot_study(path: Path, table: pl.DataFrame) -> None:
    """Draw :func:`lib.study.results.run_study`'s table as SVG, a panel a study.

    Lines are differences from the default choice (the dashed line), bars one standard error of
    the difference paired by graph.
    """
    import matplotlib  # not by stage 4 without a study
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "tgraph"  # the same table, the same bytes
    figure = Figure(figsize=(10, 4), layout="constrained")
    shown = [one for one in PANELS if one[0] in table["study"]]
    for axes, panel in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        _panel(axes, table, *panel)
    figure.suptitle(f"{table['collection'][0]}: out-of-fold score against the default's")
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})


def _panel(
    axes: Axes, table: pl.DataFrame, study: str, across: str, line: str, name: Callable[[Any], str]
) -> None:
    own = table.filter(pl.col("study") == study)
    values = own[line].unique(maintain_order=True).to_list()
    for index, value in enumerate(values):
        rows = own.filter(pl.col(line) == value).sort(across)
        ticks = rows[across].to_list()
        places = [p + 0.08 * (index - (len(values) - 1) / 2) for p in range(len(ticks))]
        axes.errorbar(
            places,
            rows["difference"],
            rows["difference_standard_error"],
            marker="o",
            markersize=3,
            capsize=2,
            label=name(value),
        )
    axes.set_xticks(range(len(ticks)), [str(tick) for tick in ticks])
    axes.axhline(0, color="grey", linestyle="--", linewidth=0.8)
    axes.set_xlabel(across)
    axes.set_ylabel("difference in score")
    default = own.filter("default").row(0, named=True)
    axes.set_title(f"{study}: default {name(default[line])}, {default[across]} {across}")
    axes.legend(fontsize=8)
