"""The timeline of a replayed network as a picture."""

from __future__ import annotations

from pathlib import Path

from lib.files.artifacts import atomic_file
from lib.files.errors import UserError
from lib.programs.latency.estimate import Estimate, costs

FORMATS = (".svg", ".png", ".pdf")
NAMED = 8  # tasks that have a colour of their own


def check_picture(path: Path) -> None:
    """Raise a :class:`UserError` if a file's name does not end as a picture's does."""
    if path.suffix not in FORMATS:
        raise UserError(f"--plot {path}: must end in one of {' '.join(FORMATS)}")


def plot_timeline(path: Path, found: Estimate) -> None:
    """Draw a line an engine: each call from its begin to its end; what costs most has a colour.

    Raises:
        UserError: the file's name does not end as a picture's does.
    """
    check_picture(path)
    import matplotlib  # takes a second
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "tgraph"  # the same timeline, the same bytes
    network, runs = found.network, found.timeline.runs
    engines = list(dict.fromkeys(run.engine for run in runs))
    figure = Figure(figsize=(10, 1.6 + 0.5 * len(engines)), layout="constrained")
    axes = figure.subplots()
    named = {one["task"]: one["operators"] for one in costs(found)[:NAMED]}
    tasks = [network.hashes[network.calls[run.node][0]] for run in runs]
    groups = [one if one in named else None for one in tasks]
    for place, task in enumerate([*named, None]):
        colour, label = (f"C{place}", named[task]) if task else ("lightgrey", "others")
        own = [run for run, one in zip(runs, groups, strict=True) if one == task]
        for row, engine in enumerate(engines):
            bars = [(1e3 * r.start, 1e3 * (r.end - r.start)) for r in own if r.engine == engine]
            about = {"label": label} if own and row == 0 else {}
            axes.broken_barh(bars, (row - 0.4, 0.8), facecolor=colour, **about)
    axes.set_yticks(range(len(engines)), engines)
    axes.set_xlabel("ms, as predicted")
    axes.set_title(f"{network.name} on {found.device}", fontsize=10)
    figure.legend(loc="outside lower center", ncols=3, fontsize=7)
    with atomic_file(path) as temporary:
        about = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(temporary, format=path.suffix[1:], metadata=about)
