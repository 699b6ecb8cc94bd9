"""A dataset of measured tensor programs: read, with every value checked.

A root has ``dataset.json`` and seven tables. ``tasks``, ``networks`` (a row for each task that a
network calls) and ``programs`` say what was measured; ``nodes`` and ``leaves`` hold the trees and
features of the programs, one after the other, and ``accesses`` goes with ``leaves``; ``latencies``
has a row for each program on a device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.files.artifacts import read_json
from lib.files.errors import DataError
from lib.files.parquet import read_parquet
from lib.files.processor import INSTRUCTIONS, MCPU
from lib.files.schema import expect
from lib.programs.tensorir import accesses
from lib.programs.tensorir.features import FEATURES
from lib.programs.tensorir.tree import COLUMNS, NO_ROW, Forest, fault, positions

KIND = "programs"
# The first of a fused task's: conv2d, layer_norm, fast_softmax.
OPERATOR = re.compile(r"(?:fast_|log_|tir_)?[a-z]+(?:_norm|_pool)?(?:[123]d)?")
SPLITS = ("train", "test", "search")
TABLES = {
    "tasks": {
        **dict.fromkeys(("task", "operators", "split"), "text"),
        "flops": "number",
    },
    "networks": {"network": "text", "task": "integer", "calls": "integer"},
    "programs": {
        **{"task": "integer", "schedule": "text"},
        **dict.fromkeys(("round", "leaves", "nodes"), "integer"),
    },
    "nodes": dict.fromkeys(COLUMNS, "integer"),
    "leaves": {**dict.fromkeys(FEATURES, "number"), "position": "integer"},
    "accesses": dict.fromkeys(accesses.COLUMNS, "number"),
    "latencies": {
        "program": "integer",
        "device": "integer",
        "seconds": "number",
        "again": "number?",
    },
}
ADVICE = "restore it, or make collect KIND=programs writes another"
CACHES = ("l1_kib", "l2_kib", "l3_kib")
DEVICE = {
    **{"name": str, "instructions": str, "processor": str, "threads": int},
    **{"mcpu?": str, "deployed?": bool},
    "machine?": {f"{cache}?": float for cache in CACHES},
}
MOST_DEVICES, MOST_THREADS, MOST_KIB = 127, 1 << 16, 1 << 40
LONGEST_NAME = 200  # characters; some names stand in every row of the results
NAME = f"1 to {LONGEST_NAME} characters that can be seen"
TIME = (pl.Float32, 1e-9, 86_400.0)  # seconds, from some cycles to a day
# What numbers are kept as, and their least and most as such.
RANGES: dict[str, dict[str, tuple[Any, float, float]]] = {
    "tasks": {"flops": (pl.Float64, 0.0, 1e18)},
    "networks": {"calls": (pl.Int32, 1, 10**6)},
    "programs": {"round": (pl.Int16, 0, 32_767)},
    "nodes": {
        "depth": (pl.Int16, 0, 64),  # of measured programs, 16 at most
        "kind": (pl.Int8, 0, 127),
        "extent": (pl.Int32, 1, 2**31 - 1),
        "unroll": (pl.Int16, 0, 32_767),
        "row": (pl.Int16, NO_ROW, 32_767),
    },
    "leaves": dict.fromkeys(FEATURES, (pl.Float16, 0.0, 64.0)),
    "accesses": dict.fromkeys(accesses.COLUMNS, (pl.Float16, -accesses.MOST, accesses.MOST)),
    "latencies": {"seconds": TIME, "again": TIME},
}
KEYS = {  # columns by which the rows of a table differ
    "tasks": ("task",),
    "networks": ("network", "task"),
    "programs": ("task", "schedule"),
    "latencies": ("program", "device"),
}


@dataclass(frozen=True)
class Programs:
    """The contents of a root.

    Attributes:
        metadata: ``dataset.json``; its ``devices`` is a list of what each device is.
        tasks, networks, programs, latencies: the tables, see :data:`TABLES`.
        features: (leaves, 164) float16, log2(1 + x), of all programs one after the other.
        accesses: (leaves, 98) float16, see :mod:`lib.programs.tensorir.accesses`.
        position: (leaves,) int64, the ordering vectors.
        starts: (programs + 1,) int64, where each program's leaves begin.
        forest: the trees.
    """

    metadata: dict[str, Any]
    tasks: pl.DataFrame
    networks: pl.DataFrame
    programs: pl.DataFrame
    latencies: pl.DataFrame
    features: np.ndarray
    accesses: np.ndarray
    position: np.ndarray
    starts: np.ndarray
    forest: Forest


def read_programs(root: Path) -> Programs:
    """Read and check a dataset.

    Raises:
        DataError: a file is missing or damaged, or says what cannot be.
    """
    metadata = read_json(root / "dataset.json")
    if not isinstance(metadata, dict) or metadata.get("kind") != KIND:
        raise DataError(root / "dataset.json", "kind", "another", f"{KIND!r}")
    devices = _checked_devices(root / "dataset.json", metadata)
    tables = {
        name: read_parquet(table_path(root, name), columns, ADVICE)
        for name, columns in TABLES.items()
    }
    _check_values(root, tables, devices)
    nodes = {name: tables["nodes"][name].to_numpy().astype(t) for name, t in COLUMNS.items()}
    forest = Forest(**nodes, starts=_starts(tables["programs"]["nodes"])[:-1])
    if wrong := fault(forest):
        raise DataError(table_path(root, "nodes"), *wrong, "trees of loops in pre-order")
    starts = _starts(tables["programs"]["leaves"])
    position = tables["leaves"]["position"].to_numpy().astype(np.int64)
    _check_leaves(root, forest, starts, position)
    features = tables["leaves"].select(FEATURES).to_numpy().astype(np.float16)
    patterns = tables["accesses"].to_numpy().astype(np.float16)
    if len(patterns) != len(features):
        path = table_path(root, "accesses")
        raise DataError(path, "rows", len(patterns), f"{len(features)}, as of the leaves")
    held = {name: tables[name] for name in ("tasks", "networks", "programs", "latencies")}
    return Programs(
        metadata=metadata,
        **held,
        features=features,
        accesses=patterns,
        position=position,
        starts=starts,
        forest=forest,
    )


def table_path(root: Path, name: str) -> Path:
    """Return the path of a table."""
    return root / f"{name}.parquet"


def is_general(device: Mapping[str, Any]) -> bool:
    """Return whether a device has measured networks as PyTorch has them, their weights cached.

    Others have measured networks as they are deployed, and say so. (Those of the bundled data do
    not: of these, the ones that programs were compiled for by their processor's own name.)
    """
    compiled_for = device.get("mcpu", MCPU[device["instructions"]])
    return not device.get("deployed", compiled_for not in MCPU.values())


def first_operator(operators: str) -> str:
    """Return the first of a task's operators, such as ``conv2d``; underscores join them."""
    matched = OPERATOR.match(operators)
    return matched[0] if matched else operators


def _starts(counts: pl.Series) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts.to_numpy().astype(np.int64))])


def _checked_devices(path: Path, metadata: dict[str, Any]) -> int:
    """Return the number of devices; each is of a known kind."""
    devices = expect(metadata, {"devices": [DEVICE]}, path)["devices"]
    if not 0 < len(devices) <= MOST_DEVICES:
        raise DataError(path, "devices", len(devices), f"1 to {MOST_DEVICES} of them")
    names = [device["name"] for device in devices]
    for number, device in enumerate(devices):
        checks = {
            "name": (names.index(device["name"]) == number and _is_name(device["name"]), "its own"),
            "instructions": (
                device["instructions"] in INSTRUCTIONS,
                f"one of {', '.join(INSTRUCTIONS)}",
            ),
            "threads": (1 <= device["threads"] <= MOST_THREADS, f"1 to {MOST_THREADS}"),
            "machine": (
                all(0 <= device.get("machine", {}).get(cache, 0) <= MOST_KIB for cache in CACHES),
                f"caches of 0 to {MOST_KIB} KiB",
            ),
        }
        for key, (right, expected) in checks.items():
            if not right:
                raise DataError(path, f"devices[{number}].{key}", str(device[key])[:60], expected)
    return len(devices)


def _check_values(root: Path, tables: Mapping[str, pl.DataFrame], devices: int) -> None:
    """Numbers are in their ranges, as they are kept; names can be written into tables of results;
    rows have keys of their own."""
    rows = {name: len(table) for name, table in tables.items()}
    task, device = (pl.Int64, 0, rows["tasks"] - 1), (pl.Int64, 0, devices - 1)
    links = {
        "networks": {"task": task},
        "programs": {"task": task, **{n: (pl.Int64, 1, rows[n]) for n in ("leaves", "nodes")}},
        "latencies": {"program": (pl.Int64, 0, rows["programs"] - 1), "device": device},
    }
    for name, table in tables.items():
        path = table_path(root, name)
        for column, (kind, least, most) in (RANGES[name] | links.get(name, {})).items():
            converted = table[column].cast(kind, strict=False)
            right = converted.is_between(least, most).fill_null(False) | table[column].is_null()
            _check_all(path, table, [column], right, f"{least:,} to {most:,}")
        for column in table.select(pl.col(pl.String)).columns:
            right = table[column].map_elements(_is_name, pl.Boolean)
            _check_all(path, table, [column], right, NAME)
        if key := KEYS.get(name):
            right = table.select(pl.struct(key).is_first_distinct()).to_series()
            _check_all(path, table, key, right, "each once")
    split, path = tables["tasks"]["split"], table_path(root, "tasks")
    _check_all(path, tables["tasks"], ["split"], split.is_in(SPLITS), f"one of {SPLITS}")
    for column in ("leaves", "nodes"):
        count, there = tables["programs"][column].sum(), len(tables[column])
        if count != there:
            raise DataError(table_path(root, "programs"), column, count, f"{there} in all")


def _check_all(
    path: Path, table: pl.DataFrame, columns: Sequence[str], right: pl.Series, expected: str
) -> None:
    """Raise a DataError of the first row that is not right."""
    if not right.all():
        row = right.not_().arg_max()
        text = ", ".join(repr(value)[:60] for value in table.select(columns).row(row))
        raise DataError(path, ", ".join(columns), f"{text} in row {row}", expected)


def _is_name(text: str) -> bool:
    """Return whether a text can stand in tables of results, with other names in one cell."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable() and " " not in text


def _check_leaves(root: Path, forest: Forest, starts: np.ndarray, position: np.ndarray) -> None:
    """The trees have as many leaves as there are rows of features, at those positions."""
    counts = np.bincount(forest.tree_of_node[forest.leaves], minlength=len(forest))
    if not np.array_equal(counts, np.diff(starts)):
        k = int(np.flatnonzero(counts != np.diff(starts))[0])
        text = f"{np.diff(starts)[k]} of program {k}"
        raise DataError(table_path(root, "programs"), "leaves", text, f"{counts[k]}, as its tree")
    places = positions(forest)
    if len(wrong := np.flatnonzero(places != position)):
        text = f"{position[wrong[0]]} in row {wrong[0]}"
        expected = f"{places[wrong[0]]}, the leaf's place in its tree"
        raise DataError(table_path(root, "leaves"), "position", text, expected)
