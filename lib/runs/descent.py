"""Whether files that stages 3 and 4 read are what the stage before would make of them now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.files.errors import DataError
from lib.files.results import read_fold_metrics
from lib.runs.identity import Making
from lib.runs.ingredients import identity_in, read_by


def check_trained(path: Path, about: Mapping[str, Any], making: Making, fold: int) -> None:
    """Raise a DataError unless a fold's weights or metrics are those that this run would train.

    Args:
        path: the file, to name.
        about: what it says of itself.
        making: what this run makes its results from.
        fold: whose the file is to be.
    """
    data = making.data_of_training
    if about.get("fold") != fold:
        raise DataError(path, "fold", about.get("fold"), f"{fold}; train again")
    for name, value in data.items():
        if about.get(name) != value:
            actual = "another cache's fingerprint" if name == "data" else "other data's fingerprint"
            raise DataError(path, name, actual, "this one's: train again")
    for name, value in read_by(making.settings, 1, 2).items():
        if about.get(name) != value:
            says = f"{value} as --{name.replace('_', '-')} says, or its default"
            expected = f"{says}: give the flags that it was trained with, or train again"
            raise DataError(path, name, about.get(name), expected)
    if about.get("identity") != making.identity("train", fold):
        raise DataError(path, "identity", "that of other code", "this code's: train again")


def check_scored(making: Making, fold: int) -> None:
    """Raise a DataError unless a fold's metrics and scores are those that this run would make."""
    (scores,) = making.files("infer", fold)
    metrics = next(file for file in making.files("train", fold) if file.name == "metrics.json")
    check_trained(metrics, read_fold_metrics(metrics), making, fold)
    identity = identity_in(scores)
    if identity != making.identity("infer", fold):
        folds = [k for k in making.fold_numbers if identity == making.identity("infer", k)]
        whose = f"that of fold {folds[0]}" if folds else "that of other weights or settings"
        advice = f"run 03_infer.py --fold {fold} again"
        raise DataError(scores, "identity", whose, f"that of fold {fold} and these flags; {advice}")
