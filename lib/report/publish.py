"""What stage 4 tells W&B of its results once they are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from lib.report.experiment import SECTIONS, Experiment
from lib.report.statistics import mean
from lib.runs.stage import Stage


def publish(experiment: Experiment, stage: Stage, files: Sequence[Path]) -> None:
    """Send final tables, plots, the report and the submission to W&B, each fold's validation score
    and which were blended among them.

    Args:
        experiment: whose submission, metrics and report are written.
        stage: that runs, begun.
        files: what it wrote.
    """
    tracker = stage.tracker
    if tracker is None:
        return
    kind, collection = experiment.kind, experiment.collection
    for section in SECTIONS:
        mean = (experiment.metrics.get(section) or {}).get("mean", {})
        tracker.summarize({f"{section}/{key}": value for key, value in mean.items()})
    folds = fold_scores(experiment)
    for fold, metric, validation in folds.select("fold", "metric", "validation").iter_rows():
        tracker.summarize({f"validation_{metric}/fold_{fold}": validation})
    tracker.summarize({"folds_blended": experiment.blended})
    tracker.table("folds", folds)
    tracker.table("results", results(experiment))
    every = graphs(experiment)
    tracker.table("graphs", every)
    x, y = kind.baseline.key, kind.main.key
    for (section,), rows in every.partition_by("section", as_dict=True).items():
        points = rows.select("graph", *(c for c in (x, y) if c in rows.columns)).drop_nulls()
        if len(points) and points.width == 3:
            title = f"{kind.main.name}, {section}: network against {kind.baseline.name}"
            tracker.plot(f"plots/{section}", points, x, y, title)
    folder = experiment.folder
    tracker.page("report", folder / "report.html")
    word = files[0].stem.rstrip("s")
    tracker.artifact(f"{word}-{collection}", word, *files)


def fold_scores(experiment: Experiment) -> pl.DataFrame:
    """A row a fold that stage 4 measured: ``fold, metric, validation, blended, place``, the place
    being 1 for the blended fold of highest validation score, null for one that is not blended."""
    metric, blended = experiment.kind.main.key, experiment.blended
    scores = experiment.metrics.get("folds", {}).get(f"validation_{metric}", {})
    rows = [
        (fold, metric, scores[str(fold)], fold in blended, _place(fold, blended))
        for fold in experiment.measured
        if str(fold) in scores
    ]
    schema = {"fold": pl.Int64, "metric": pl.String, "validation": pl.Float64}
    schema |= {"blended": pl.Boolean, "place": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def results(experiment: Experiment) -> pl.DataFrame:
    """A row a metric and section: ``metric, section, graphs, mean, standard_error``, the error
    being null where there is but one graph."""
    rows = []
    for metric in experiment.kind.described:
        for section in SECTIONS:
            average = mean(list(experiment.values(section, metric.key).values()))
            if average.count:
                rows.append((metric.key, section, average.count, average.value, average.error))
    schema = {"metric": pl.String, "section": pl.String, "graphs": pl.Int64}
    schema |= {"mean": pl.Float64, "standard_error": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row").with_columns(
        pl.col("standard_error").fill_nan(None)
    )


def graphs(experiment: Experiment) -> pl.DataFrame:
    """A row a graph of every section: ``section, graph``, and a column a metric; worst first, as
    a table that nobody has sorted shows them."""
    rows = [(s, name, row) for s in SECTIONS for name, row in experiment.metrics_of(s).items()]
    keys = sorted({key for _, _, row in rows for key in row})
    schema = {"section": pl.String, "graph": pl.String, **dict.fromkeys(keys, pl.Float64)}
    table = pl.DataFrame([(s, n, *map(row.get, keys)) for s, n, row in rows], schema, orient="row")
    main = experiment.kind.main
    return table.sort(main.key, descending=not main.higher_is_better) if rows else table


def _place(fold: int, blended: list[int]) -> int | None:
    return blended.index(fold) + 1 if fold in blended else None
