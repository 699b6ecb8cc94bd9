"""A network as the environment with TVM wrote it: its calls, its tasks, and programs of each.

See :mod:`lib.collect.tvm.whole`.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.errors import DataError
from lib.files.schema import expect
from lib.inputs.programs import Programs
from lib.latency.replay import Node, topological
from lib.tensorir.features import WIDTH
from lib.tensorir.nests import nests
from lib.tensorir.tree import COLUMNS, Forest, fault, positions

EXPECTED = "a network as lib.collect.tvm.whole writes it"
ABOUT = {
    "network": str,
    "seed": int,
    "calls": [{"task": int, "after": [int]}],
    "tasks": [{"task": str, "operators": str}],
}
ARRAYS = (*COLUMNS, "hash", "owner", "joined", "leaves", "nodes", "features")
MOST_BYTES = 1 << 31  # of all arrays together


@dataclass(frozen=True, eq=False)
class Network:
    """What a network runs.

    Attributes:
        name: the network's.
        calls: (task, numbers of the calls that it waits for), in the order of the code.
        hashes, operators: of each task: which it is, and what it computes.
        programs: under the schedules that were drawn, without latencies; those of a task lie
            together, in the order of the tasks.
        owner: (n,) which task each program is of.
        schedules: (n,) which schedule each is, by its hash.
    """

    name: str
    calls: tuple[tuple[int, tuple[int, ...]], ...]
    hashes: tuple[str, ...]
    operators: tuple[str, ...]
    programs: Programs
    owner: np.ndarray
    schedules: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """(tasks,) how often each is called."""
        return np.bincount([task for task, _ in self.calls], minlength=len(self.hashes))


def read_network(path: Path) -> Network:
    """Read and check the file.

    Raises:
        DataError: it is none, or it says what cannot be.
    """
    arrays, about = _read(path)
    expect(about, ABOUT, path, advice=EXPECTED)
    calls = tuple((one["task"], tuple(one["after"])) for one in about["calls"])
    _check_calls(path, calls, len(about["tasks"]))
    forest, features = _check_programs(path, arrays)
    owner, joined = arrays["owner"], arrays["joined"].astype(bool)
    tasks = np.arange(len(about["tasks"]))
    if owner.shape != joined.shape or (np.diff(owner) < 0).any():
        raise DataError(path, "owner", "another order", "a task for each program, ascending")
    if not np.array_equal(np.unique(owner[joined]), tasks):
        raise DataError(path, "owner", "a task without a program", "programs of every task")
    first = np.concatenate([[0], np.cumsum(np.bincount(owner[joined], minlength=len(tasks)))])
    kept = np.repeat(joined, arrays["leaves"])
    programs = Programs(
        features=features.astype(np.float16)[kept],
        position=positions(forest).astype(np.int64)[kept],
        loops=nests(forest)[kept],
        starts=np.concatenate([[0], np.cumsum(arrays["leaves"][joined])]).astype(np.int64),
        seconds=np.full((int(joined.sum()), 0), np.nan),
        tasks=tuple(one["task"] for one in about["tasks"]),
        first=first.astype(np.int64),
    )
    operators = tuple(one["operators"] for one in about["tasks"])
    schedules = arrays["hash"][joined]
    return Network(
        about["network"], calls, programs.tasks, operators, programs, owner[joined], schedules
    )


def _read(path: Path) -> tuple[dict[str, np.ndarray], Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            sizes = {one.filename: one.file_size for one in file.zip.infolist()}
            if sum(sizes.values()) > MOST_BYTES:
                raise DataError(path, "npz", f"{sum(sizes.values())} bytes", f"up to {MOST_BYTES}")
            arrays = {name: file[name] for name in (*ARRAYS, "about")}
        return arrays, json.loads(arrays.pop("about").item())
    except DataError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, RecursionError) as error:
        raise DataError(path, "npz", str(error) or type(error).__name__, EXPECTED) from None


def _check_calls(path: Path, calls: tuple[tuple[int, tuple[int, ...]], ...], tasks: int) -> None:
    """Every call is of a task that there is, and none waits for itself."""
    if not calls or not tasks:
        raise DataError(path, "calls", "none", "at least one call of a task")
    if {task for task, _ in calls} != set(range(tasks)):
        raise DataError(path, "calls", "other tasks", f"all of 0 to {tasks - 1} and no other")
    try:
        topological([Node(0.0, after) for _, after in calls])
    except ValueError as error:
        raise DataError(path, "calls", error, "a graph without circles") from None


def _check_programs(path: Path, arrays: dict[str, np.ndarray]) -> tuple[Forest, np.ndarray]:
    """Trees are trees, and features are as many as the counts say, and numbers."""
    count = len(arrays["hash"]) if arrays["hash"].ndim == 1 else 0
    for name, table in (("leaves", "features"), ("nodes", "depth")):
        found, rows = arrays[name], len(np.atleast_1d(arrays[table]))
        whole = found.shape == (count,) and found.dtype.kind in "iu"
        if not count or not whole or (found < 1).any() or found.sum() != rows:
            raise DataError(path, name, "other numbers", f"{count} counts that add up to {rows}")
    features = arrays["features"]
    largest = np.finfo(np.float16).max
    if features.shape[1:] != (WIDTH,) or not (np.abs(features) <= largest).all():
        raise DataError(path, "features", "no numbers", f"{WIDTH} numbers a leaf")
    if any(arrays[name].dtype.kind not in "iu" for name in (*COLUMNS, "owner")):
        raise DataError(path, "depth", "no whole numbers", EXPECTED)
    starts = np.cumsum(arrays["nodes"]) - arrays["nodes"]
    columns = (arrays[name].astype(dtype) for name, dtype in COLUMNS.items())
    forest = Forest(*columns, starts.astype(np.int64))
    if wrong := fault(forest):
        raise DataError(path, *wrong, "trees of loops in pre-order")
    counts = np.bincount(forest.tree_of_node[forest.leaves], minlength=len(forest))
    if not np.array_equal(counts, arrays["leaves"]):
        raise DataError(path, "leaves", "other numbers", "those of the trees")
    return forest, features
