"""One task of a collection of tensor programs as the stages after preprocessing see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lib.cache.format import Arrays, CacheFormat
from lib.programs.tensorir.accesses import AROUND

JOINED = " "  # between names of networks, which have no blanks


@dataclass(frozen=True, eq=False)
class CachedTask:
    """A task, its measured programs, and their latencies.

    Programs that look the same to a network, leaf by leaf, are one *distinct* program; the source's
    keep their own latencies. A *pair* is one of the source's programs on one device.

    Attributes:
        name: the task's operators and its hash.
        split: ``train`` or ``test`` of the source.
        operators: what it computes.
        networks: that call it.
        features: (leaves, 164) float16, log2(1 + x), of the distinct programs one after the other.
        position: (leaves,) int32, the ordering vectors of their trees.
        loops: (leaves, 118) float16, of the loops around and what is accessed, see
            :func:`lib.programs.tensorir.accesses.around`.
        counts: (d,) int32, leaves of each distinct program.
        original: (p,) int32, which distinct program each of the source's is.
        program: (p,) int32, the row of each in the source's table of programs.
        owner: (pairs,) int32, which of the p programs, ascending.
        device: (pairs,) uint8, on which device; ascending for each program.
        seconds: (pairs,) float32.
        again: (pairs,) float32, what a second process measured; NaN if there was none.
    """

    name: str
    split: str
    operators: str
    networks: tuple[str, ...]
    features: np.ndarray
    position: np.ndarray
    loops: np.ndarray
    counts: np.ndarray
    original: np.ndarray
    program: np.ndarray
    owner: np.ndarray
    device: np.ndarray
    seconds: np.ndarray
    again: np.ndarray

    nothing_to_rank = ""  # folds are dealt of networks, whatever their tasks are

    @property
    def used(self) -> np.ndarray:
        """(n,) ascending numbers of the distinct programs that have a pair."""
        return np.unique(self.original[self.owner])

    def restricted(self, mask: np.ndarray) -> CachedTask:
        """Return the task with some of its pairs only, (pairs,) bool."""
        pairs = ("owner", "device", "seconds", "again")
        return replace(self, **{name: getattr(self, name)[mask] for name in pairs})

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the task's arrays, and further columns of its row."""
        columns = {"operators": self.operators, "networks": JOINED.join(self.networks)}
        return dict(vars(self)), columns

    @classmethod
    def unpacked(cls, row: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> CachedTask:
        """Return the task of a row of the table and its slices of the flat arrays."""
        networks = networks_of(row)
        return cls(row["graph"], row["split"], row["operators"], networks, **arrays)


def networks_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the networks that call the task of a row of the cache's table."""
    return tuple(row["networks"].split(JOINED)) if row["networks"] else ()


ARRAYS: Arrays = {
    "features": (np.float16, (164,), "leaves"),
    "position": (np.int32, (), "leaves"),
    "loops": (np.float16, (AROUND,), "leaves"),
    "counts": (np.int32, (), "distinct"),
    "original": (np.int32, (), "programs"),
    "program": (np.int32, (), "programs"),
    "owner": (np.int32, (), "configurations"),
    "device": (np.uint8, (), "configurations"),
    "seconds": (np.float32, (), "configurations"),
    "again": (np.float32, (), "configurations"),
}
FORMAT = CacheFormat(ARRAYS, CachedTask)
