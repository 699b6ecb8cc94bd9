"""What stage 4 does with its results once they are written: the report, and W&B."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from lib.report import tables
from lib.report.experiment import SECTIONS, Experiment, read_experiment
from lib.report.page import write_report
from lib.stage import Stage


def publish(folder: Path, measurements: pl.DataFrame | None, stage: Stage) -> None:
    """Write ``report.html`` and send final tables, plots and the submission to W&B.

    Args:
        folder: the collection's; submission and metrics are in it.
        measurements: runtimes that are not in the scores.
        stage: that runs, begun.
    """
    page = write_report(folder, measurements, stage.record())
    experiment = read_experiment(folder)
    tracker = stage.tracker
    if tracker is None:
        return
    scheme, collection = experiment.scheme, experiment.collection
    for section in SECTIONS:
        mean = (experiment.metrics.get(section) or {}).get("mean", {})
        tracker.summarize({f"{section}/{key}": value for key, value in mean.items()})
    numbers = tables.numbers(experiment)
    tracker.table("results", ["metric", *numbers.head[1:]], numbers.rows)
    tracker.table("graphs", *_graphs(experiment))
    for section in SECTIONS:
        own = experiment.values(section, scheme.main.key)
        other = experiment.values(section, scheme.baseline)
        points = [[name, other[name], own[name]] for name in own if name in other]
        if points:
            title = f"{scheme.main.name}, {section}: network against {scheme.baseline_name}"
            tracker.plot(f"plots/{section}", points, scheme.baseline, scheme.main.key, title)
    tracker.page("report", page)
    kept = (folder / name for name in ("submission.csv", "metrics.json", "report.html"))
    tracker.artifact(f"submission-{collection}", "submission", *kept)


def _graphs(experiment: Experiment) -> tuple[list[str], list[list[object]]]:
    """Columns and rows of every graph's numbers in every section."""
    rows = [(s, name, row) for s in SECTIONS for name, row in experiment.rows(s).items()]
    keys = sorted({key for _, _, row in rows for key in row})
    return ["section", "graph", *keys], [[s, n, *(row.get(k) for k in keys)] for s, n, row in rows]
