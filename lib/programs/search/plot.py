"""The best latency over measurements as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lib.files.artifacts import atomic_file
from lib.programs.search.record import SearchRecord

NAMED = 8  # tasks that have a colour of their own: those that take most


def plot_search(path: Path, record: SearchRecord) -> None:
    """Draw a line a task: its best latency over its latency without a schedule, as an svg."""
    import matplotlib  # takes a second
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "tgraph"  # the same search, the same bytes
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    costs = [-one.calls * one.unscheduled for one in record.tasks]
    for place, k in enumerate(np.argsort(costs, kind="stable")):
        one = record.tasks[k]
        best = one.best()
        trials = np.arange(1, len(best) + 1)
        shown = np.isfinite(best)
        label = f"{one.operators[:40]} {one.task[:6]}" if place < NAMED else None
        colour = f"C{place}" if place < NAMED else "lightgrey"
        speed = one.unscheduled / best[shown]
        axes.step(trials[shown], speed, where="post", label=label, color=colour)
    axes.set_xlabel("measured programs")
    axes.set_ylabel("times as fast as unscheduled")
    axes.set_yscale("log")
    axes.set_ylim(bottom=min(1.0, axes.get_ylim()[0]))  # 1 is the unscheduled program
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.set_title(f"{record.network} on {record.device}, by {record.cost_model}", fontsize=10)
    if record.tasks:
        figure.legend(loc="outside lower center", ncols=2, fontsize=7)
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
