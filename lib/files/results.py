"""The numbers that stages 2 and 4 leave, JSON documents that are checked when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lib.files.artifacts import read_json
from lib.files.schema import expect

AGAIN = "delete it, and train again (02_train.py)"
# The source's split, or a fold's, that each section of stage 4's ``metrics.json`` is of.
SPLIT_OF = {"training": "train", "validation": "valid", "test": "test"}
SETTINGS = {
    "collection?": str,
    "model?": str,
    "blending?": str,
    "data?": str,
    "identity?": str,
    "versions?": {str: str},
}
VALIDATION = {
    **dict.fromkeys(("epoch?", "tau?", "tile_score?", "mape?"), float),
    "graphs?": {str: float},
}
SECTION = {
    "mean?": {str: float},
    "graphs?": {str: {str: float}},
    "groups?": {str: {str: {str: float}}},
    "left_out?": [str],
}
METRICS = {
    "training?": SECTION,
    "validation?": SECTION,
    "test?": SECTION,
    "folds?": {
        "blended?": [int],
        "validation_tau?": {int: float},
        "validation_tile_score?": {int: float},
        "validation_mape?": {int: float},
    },
    "settings?": SETTINGS,
}


def read_fold_metrics(path: Path) -> dict[str, Any]:
    """A fold's ``metrics.json``: its settings, and its best and last validation, either of which
    is empty if there was none.

    Raises:
        DataError: if it is missing, or not what stage 2 writes.
    """
    values = expect(read_json(path), {**SETTINGS, "data": str, "validation": dict}, path, "", AGAIN)
    for name in ("validation", "best", "last"):
        if values.get(name, {}) != {}:
            expect(values[name], VALIDATION, path, name, AGAIN)
    if values.get("best"):
        expect(values["best"], {"epoch": float}, path, "best", AGAIN)
    return values


def read_metrics(path: Path) -> dict[str, Any]:
    """Stage 4's ``metrics.json``: every graph's numbers in each section, folds and settings.

    Raises:
        DataError: if it is missing, or not what stage 4 writes.
    """
    return expect(read_json(path), METRICS, path, advice="delete it, and run 04_ensemble.py again")
