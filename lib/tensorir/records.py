"""A dataset of measured tensor programs: reading it, and believing nothing of it unchecked.

A root has ``dataset.json`` and seven tables. ``tasks``, ``networks`` (a row for each task that a
network calls) and ``programs`` say what was measured; ``nodes`` and ``leaves`` hold the trees and
features of the programs, one after the other; ``latencies`` has a row for each program on a
device, ``unscheduled`` for each task on one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.files.artifacts import read_json
from lib.files.errors import DataError
from lib.files.parquet import read_parquet
from lib.tensorir.features import FEATURES
from lib.tensorir.tree import COLUMNS, Forest, fault, positions

KIND = "programs"
SPLITS = ("train", "test", "search")
DISAGREE, SLOW = 1, 2  # bits of a latency's flags
TABLES = {
    "tasks": {
        **dict.fromkeys(("task", "operators", "arguments", "split"), "text"),
        "flops": "number",
        "distinct": "integer",
        "sampled": "integer",
    },
    "networks": {"network": "text", "family": "text", "task": "integer", "calls": "integer"},
    "programs": {
        "task": "integer",
        "schedule": "text",
        "round": "integer",
        "leaves": "integer",
        "nodes": "integer",
    },
    "nodes": dict.fromkeys(COLUMNS, "integer"),
    "leaves": {**dict.fromkeys(FEATURES, "number"), "position": "integer"},
    "latencies": {
        "program": "integer",
        "device": "integer",
        "seconds": "number",
        "again": "number?",
        "flags": "integer",
    },
    "unscheduled": {"task": "integer", "device": "integer", "seconds": "number"},
}
ADVICE = "restore it, or make collect KIND=programs writes another"


@dataclass(frozen=True)
class Programs:
    """What a root holds.

    Attributes:
        about: ``dataset.json``; ``about["devices"]`` is a list of what each device is.
        tasks, networks, programs, latencies, unscheduled: the tables, see :data:`TABLES`.
        features: (leaves, 164) float16, log2(1 + x), of all programs one after the other.
        position: (leaves,) int64, the ordering vectors.
        starts: (programs + 1,) int64, where each program's leaves begin.
        forest: the trees.
    """

    about: dict[str, Any]
    tasks: pl.DataFrame
    networks: pl.DataFrame
    programs: pl.DataFrame
    latencies: pl.DataFrame
    unscheduled: pl.DataFrame
    features: np.ndarray
    position: np.ndarray
    starts: np.ndarray
    forest: Forest


def read_programs(root: Path) -> Programs:
    """Read and check a dataset.

    Raises:
        DataError: a file is missing or damaged, or says what cannot be.
    """
    about = read_json(root / "dataset.json")
    if not isinstance(about, dict) or about.get("kind") != KIND:
        raise DataError(root / "dataset.json", "kind", "another", f"{KIND!r}")
    devices = about.get("devices")
    if not isinstance(devices, list) or not devices:
        raise DataError(root / "dataset.json", "devices", devices, "a list of devices")
    tables = {
        name: read_parquet(table_path(root, name), columns, ADVICE)
        for name, columns in TABLES.items()
    }
    _check_links(root, tables, len(devices))
    nodes = {name: tables["nodes"][name].to_numpy().astype(t) for name, t in COLUMNS.items()}
    forest = Forest(**nodes, starts=_starts(tables["programs"]["nodes"])[:-1])
    if wrong := fault(forest):
        raise DataError(table_path(root, "nodes"), *wrong, "trees of loops in pre-order")
    starts = _starts(tables["programs"]["leaves"])
    position = tables["leaves"]["position"].to_numpy().astype(np.int64)
    _check_leaves(root, forest, starts, position)
    features = tables["leaves"].select(FEATURES).to_numpy().astype(np.float16)
    if not (np.isfinite(features) & (features >= 0)).all():
        raise DataError(
            table_path(root, "leaves"), "features", "a number that is none", "log2(1+x)"
        )
    kept = {name: tables[name] for name in TABLES if name not in ("nodes", "leaves")}
    return Programs(
        about=about,
        **kept,
        features=features,
        position=position,
        starts=starts,
        forest=forest,
    )


def table_path(root: Path, name: str) -> Path:
    """Where a table is."""
    return root / f"{name}.parquet"


def _starts(counts: pl.Series) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts.to_numpy().astype(np.int64))])


def _check_links(root: Path, tables: dict[str, pl.DataFrame], devices: int) -> None:
    """Every number that points into another table points at a row of it; latencies are times."""
    tasks, programs = len(tables["tasks"]), len(tables["programs"])
    links = (
        ("networks", "task", tasks),
        ("programs", "task", tasks),
        ("latencies", "program", programs),
        ("latencies", "device", devices),
        ("unscheduled", "task", tasks),
        ("unscheduled", "device", devices),
    )
    for table, column, count in links:
        _check_range(root, table, column, tables[table][column], 0, count - 1)
    for column in ("leaves", "nodes"):
        counts = tables["programs"][column]
        _check_range(root, "programs", column, counts, 1, len(tables[column]))
        if counts.sum() != len(tables[column]):
            raise DataError(
                table_path(root, "programs"), column, counts.sum(), f"{len(tables[column])} in all"
            )
    timed = (("latencies", "seconds"), ("latencies", "again"), ("unscheduled", "seconds"))
    for table, column in timed:
        found = tables[table][column].drop_nulls()
        if not (found.is_finite() & (found > 0)).all():
            raise DataError(table_path(root, table), column, "no time", "positive seconds")
    if unknown := sorted(set(tables["tasks"]["split"]) - set(SPLITS)):
        raise DataError(table_path(root, "tasks"), "split", unknown[0], f"one of {SPLITS}")


def _check_range(
    root: Path, table: str, column: str, found: pl.Series, low: int, high: int
) -> None:
    wide = found.cast(pl.Int64)  # a bound may be more than a small type holds
    outside = found.filter((wide < low) | (wide > high))
    if len(outside):
        raise DataError(table_path(root, table), column, outside[0], f"{low} to {high}")


def _check_leaves(root: Path, forest: Forest, starts: np.ndarray, position: np.ndarray) -> None:
    """The trees have as many leaves as there are rows of features, at those positions."""
    counts = np.bincount(forest.tree_of_node[forest.leaves], minlength=len(forest))
    if not np.array_equal(counts, np.diff(starts)):
        k = int(np.flatnonzero(counts != np.diff(starts))[0])
        found = f"{np.diff(starts)[k]} of program {k}"
        raise DataError(table_path(root, "programs"), "leaves", found, f"{counts[k]}, as its tree")
    if not np.array_equal(positions(forest), position):
        path = table_path(root, "leaves")
        raise DataError(path, "position", "another order", "the leaves' places in the trees")
