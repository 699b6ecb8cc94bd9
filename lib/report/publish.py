"""Results of stage 4 for W&B, once they are written."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from lib.report.experiment import SECTIONS, Experiment
from lib.runs.stage import Stage


def publish(experiment: Experiment, stage: Stage, files: Sequence[Path]) -> None:
    """Send means, each fold's validation score and which were blended, the report and the
    submission to W&B.

    Args:
        experiment: whose submission, metrics and report are written.
        stage: that runs, begun.
        files: what it wrote.
    """
    tracker, metric = stage.tracker, experiment.kind.main.key
    if tracker is None:
        return
    for section in SECTIONS:
        means = (experiment.metrics.get(section) or {}).get("mean", {})
        tracker.summarize({f"{section}/{key}": value for key, value in means.items()})
    folds = experiment.metrics.get("folds", {}).get(f"validation_{metric}", {})
    tracker.summarize({f"validation_{metric}/fold_{fold}": value for fold, value in folds.items()})
    if values := list(map(float, folds.values())):  # W&B itself compares no runs of a group
        spread = statistics.stdev(values) if values[1:] else None
        over = {"mean": statistics.fmean(values), "deviation": spread, "folds": len(values)}
        tracker.summarize({f"validation_{metric}/{name}": one for name, one in over.items()})
    tracker.summarize({"folds_blended": experiment.blended})
    tracker.page("report", experiment.folder / "report.html")
    word = files[0].stem.rstrip("s")
    tracker.artifact(f"{word}-{experiment.collection}", word, *files)
