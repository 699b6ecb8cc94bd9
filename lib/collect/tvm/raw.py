"""The raw files of measured programs: one npz for each (phase, round, task).

Phases: ``main`` draws and times; ``again`` times the same programs in another process.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.artifacts import atomic_file
from lib.files.foreign import reading
from lib.programs.tensorir.described import forest_of
from lib.programs.tensorir.features import WIDTH
from lib.programs.tensorir.tree import COLUMNS, Forest

PHASES = ("main", "again")
FAILED = ".failed"  # how the name of a file ends that says why a job cannot be done
LONG = 2e-2  # seconds: from here on a first run is as good as any


def path(work: Path, phase: str, turn: int, task: str) -> Path:
    """Return the path of a job's results."""
    return work / "raw" / phase / f"{turn:02d}" / f"{task}.npz"


def failed(work: Path, phase: str, turn: int, task: str) -> Path:
    """Return the path of the file that says why a job cannot be done."""
    return path(work, phase, turn, task).with_suffix(FAILED)


def hashed(programs: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return which programs TVM's schedules are."""
    from lib.collect.tvm.compiler import hash_of

    return {"hash": np.array([hash_of(program.mod) for program in programs], "U16")}


def scheduled(programs: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return TVM's schedules as :func:`described` and :func:`hashed`, and their decisions."""
    from lib.collect.tvm.compiler import decisions_of

    traces = zlib.compress(json.dumps([*map(decisions_of, programs)]).encode())
    return described(programs) | hashed(programs) | {"traces": np.frombuffer(traces, np.uint8)}


def described(programs: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return trees and features of TVM's schedules; where the two disagree, a program is not
    ``joined``, and its features are zeros."""
    from lib.collect.tvm.features import Walked, accesses_of, disagreement, features

    tables = features(programs) if programs else []
    walked = [Walked(program.mod) for program in programs]
    trees = [program.tree for program in walked]
    good = [disagreement(tree, table) is None for tree, table in zip(trees, tables, strict=True)]
    tables = [
        table if fits else np.zeros((len(tree.leaves), WIDTH), np.float32)
        for tree, table, fits in zip(trees, tables, good, strict=True)
    ]
    columns = {
        name: np.concatenate([getattr(tree, name) for tree in trees] or [np.zeros(0)])
        for name in COLUMNS
    }
    return {
        "features": np.concatenate([*tables, np.zeros((0, WIDTH), np.float32)]),
        "leaves": np.array([len(table) for table in tables], np.int32),
        "nodes": np.array([tree.nodes for tree in trees], np.int32),
        "joined": np.array(good, bool),
        "accesses": accesses_of(walked, tables, good),
        **columns,
    }


@dataclass(frozen=True)
class Measured:
    """One raw file.

    Attributes:
        metadata: task, round, phase, process, processor, devices, threads and versions.
        hash: (n,) str, the schedules.
        arrays: the rest, see :func:`described` and :mod:`lib.collect.tvm.measure`.
    """

    metadata: dict[str, Any]
    hash: np.ndarray
    arrays: dict[str, np.ndarray]

    @property
    def traces(self) -> list[str]:
        """The decisions of each schedule, JSON."""
        return json.loads(zlib.decompress(self.arrays["traces"].tobytes()))

    @property
    def fastest(self) -> np.ndarray:
        """(devices, programs) the fastest reading, the first run counting for long runs alone."""
        readings = self.arrays["seconds"]
        first = np.where(readings[..., :1] >= LONG, readings[..., :1], np.nan)
        return np.nanmin(np.concatenate([first, readings[..., 1:]], -1), -1)

    def forest(self) -> Forest:
        """Return the trees of the programs."""
        return forest_of(self.arrays)

    def tables(self) -> list[np.ndarray]:
        """Return the features of each program, (leaves, 164) float32."""
        return np.split(self.arrays["features"], np.cumsum(self.arrays["leaves"])[:-1])

    def patterns(self) -> list[np.ndarray]:
        """Return the access patterns of each program, (leaves, 98) float16."""
        return np.split(self.arrays["accesses"], np.cumsum(self.arrays["leaves"])[:-1])


def write(place: Path, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Write one raw file, whole or not at all."""
    with atomic_file(place) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps(metadata, sort_keys=True)), **arrays)


def read(place: Path) -> Measured:
    """Read one raw file.

    Raises:
        DataError: it is none.
    """
    with reading(place, "npz", "a file of measured programs"):
        with np.load(place, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file}
        metadata = json.loads(arrays.pop("about").item())
        return Measured(metadata, arrays.pop("hash"), arrays)
