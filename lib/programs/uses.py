"""What a report shows of the predictor put to use: searches, and timelines of whole networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from lib.files.artifacts import read_json
from lib.files.schema import expect
from lib.report.figures import COLOURS, PANEL, POINTS, WIDE
from lib.report.svg import Figure, Scale, number, scale_over
from lib.report.tables import Table

SEARCH = {  # what is read of a search.json
    "network": str,
    "device": str,
    "cost_model": str,
    "tasks": [{"task": str, "calls": int, "operators": str, "seconds": list}],
}
TIMELINE = {  # and of what `make latency` leaves
    "network": str,
    "device": str,
    "seconds": float,
    "low": float,
    "high": float,
    "error_networks": int,
    "tasks": [{"task": str, "operators": str, "calls": int, "seconds": float}],
    "timeline": [{"task": str, "engine": str, "start": float, "end": float}],
}
ROW, TOP, FOOT, LEFT = 34.0, 8.0, 38.0, 44.0  # of a timeline
MILLISECONDS = 1e3


@dataclass(frozen=True)
class Searched:
    """One search.

    Attributes:
        name: of its folder.
        about: the ``search.json``.
        fastest: (n,) seconds of the fastest programs after each measurement of every task, each
            as often as the network calls it.
    """

    name: str
    about: Mapping[str, Any]
    fastest: np.ndarray


def searches(folder: Path) -> dict[str, Any] | None:
    """Figure, labels and table of all searches below a folder of results; ``None`` without any.

    Raises:
        DataError: a ``search.json`` is none.
    """
    paths = sorted(folder.glob("search/*/search.json"))
    searched = [search for search in map(_search, paths) if search is not None]
    if not searched:
        return None
    labels = [search.name for search in searched]
    return {"figure": curves(searched).render(), "labels": labels, "table": search_table(searched)}


def curves(searched: Sequence[Searched]) -> Figure:
    """Milliseconds of all programs over measured programs of each task: a line a search."""
    figure = Figure(WIDE, PANEL[1], "Fastest programs by measured programs of each task")
    left, right, top, bottom = 58.0, WIDE - 6, 28.0, PANEL[1] - 38
    times = [MILLISECONDS * float(seconds) for search in searched for seconds in search.fastest]
    y = scale_over(times, bottom, top, log=True)
    x = Scale(0, max(len(search.fastest) for search in searched), left, right)
    figure.y_axis(y, left, right, "all programs, ms" + (" (log)" if y.log else ""))
    figure.x_axis(x, bottom, bottom, "measured programs of a task")
    for place, search in enumerate(searched):
        points = [(x(k + 1), y(MILLISECONDS * float(s))) for k, s in enumerate(search.fastest)]
        title = f"{search.name}: {MILLISECONDS * search.fastest[-1]:.3g} ms at the end"
        figure.path(f"fold fold-{place % COLOURS}", points, title)
    return figure


def search_table(searched: Sequence[Searched]) -> Table:
    """A row a search."""
    rows = []
    for search in searched:
        tasks = search.about["tasks"]
        whole = search.about.get("whole") or {}
        times = [
            f"{name} {MILLISECONDS * seconds:.3g}"
            for name, seconds in whole.items()
            if _is_time(seconds)
        ]
        measured = sum(len(task["seconds"]) for task in tasks)
        counts = str(len(tasks)), str(measured), f"{MILLISECONDS * search.fastest[-1]:.3g}"
        rows.append([search.name, search.about["cost_model"], *counts, ", ".join(times) or "–"])
    return Table(["", "chosen by", "tasks", "measured", "programs, ms", "the network, ms"], rows)


def timelines(folder: Path) -> list[dict[str, Any]]:
    """Name, text, figure and labels of each estimate below a folder of results; a list of them
    compares devices, and has no timeline here.

    Raises:
        DataError: a file is none.
    """
    files = ((path, read_json(path)) for path in sorted(folder.glob("latency/*.json")))
    return [_shown(path, content) for path, content in files if not isinstance(content, list)]


def timeline(about: Mapping[str, Any], width: float = WIDE) -> tuple[Figure, list[str]]:
    """A bar a call on a line for each engine; the tasks that cost most have colours.

    Returns:
        The figure, and what the tasks with colours compute, in the order of their colours.
    """
    runs = about["timeline"]
    engines = list(dict.fromkeys(run["engine"] for run in runs))
    costs = sorted(about["tasks"], key=lambda task: -task["calls"] * task["seconds"])
    named = {task["task"]: place for place, task in enumerate(costs[: COLOURS - 1])}
    names = {task["task"]: task["operators"] for task in costs}
    figure = Figure(width, TOP + ROW * len(engines) + FOOT, f"Timeline of {about['network']}")
    ends = [MILLISECONDS * run["end"] for run in runs]
    x = Scale(0, max(ends, default=0.0) or 1.0, LEFT, width - 8)
    bottom = figure.height - FOOT
    figure.x_axis(x, TOP, bottom, "ms, as predicted")
    for row, engine in enumerate(engines):
        figure.text("tick", LEFT - 6, TOP + ROW * (row + 0.6), engine, "end")
    for run in runs[:POINTS]:
        start, end = (MILLISECONDS * run[side] for side in ("start", "end"))
        look = f"mark fold-{named[run['task']]}" if run["task"] in named else "track"
        title = f"{names.get(run['task'], '')}: {number(float(f'{end - start:.3g}'))} ms"
        place = {"x": x(start), "y": TOP + ROW * engines.index(run["engine"]) + 4}
        size = {"width": max(0.2, x(end) - x(start)), "height": ROW - 8}
        figure.add("rect", look, title, **place, **size)
    return figure, [names[task] for task in named]


def _search(path: Path) -> Searched | None:
    """A search that has come to all of its tasks, and has measured something."""
    about = expect(read_json(path), SEARCH, path, advice="what make search writes")
    tasks = about["tasks"]
    most = max((len(task["seconds"]) for task in tasks), default=0)
    if not most or not all(_is_time(task.get("unscheduled")) for task in tasks):
        return None
    fastest = sum(task["calls"] * _fastest(task, most) for task in tasks)
    return Searched(path.parent.name, about, fastest)


def _fastest(task: Mapping[str, Any], most: int) -> np.ndarray:
    """(most,) seconds of the fastest program after each measurement; without a schedule, until one
    runs."""
    taken = [seconds if _is_time(seconds) else math.inf for seconds in task["seconds"]]
    best = np.minimum.accumulate(np.array(taken + [math.inf] * (most - len(taken))))
    return np.where(np.isfinite(best), best, task["unscheduled"])


def _shown(path: Path, content: Any) -> dict[str, Any]:
    about = expect(content, TIMELINE, path, advice="what make latency writes")
    figure, labels = timeline(about)
    low, middle, high = (f"{MILLISECONDS * about[k]:.3g}" for k in ("low", "seconds", "high"))
    bounds = f", two networks in three {low} to {high} ms" if about["error_networks"] else ""
    says = f"{middle} ms{bounds}; {len(about['timeline'])} calls"
    return {
        "name": f"{about['network']} on {about['device']}",
        "says": says,
        "figure": Markup('<div class="scroll">{}</div>').format(figure.render()),
        "labels": labels,
    }


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value > 0
