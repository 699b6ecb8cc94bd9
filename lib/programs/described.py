"""Programs as TVM's environment describes them, nothing measured: what a predictor reads of them.

See :func:`lib.collect.tvm.raw.described`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.programs.inputs import Programs
from lib.programs.tensorir import accesses
from lib.programs.tensorir.features import WIDTH
from lib.programs.tensorir.records import MOST_ACCESS
from lib.programs.tensorir.tree import COLUMNS, Forest, fault, positions

ARRAYS = (*COLUMNS, "hash", "joined", "leaves", "nodes", "features", "accesses")


def described_programs(
    path: Path, arrays: Mapping[str, np.ndarray], tasks: Sequence[str], owner: np.ndarray
) -> Programs:
    """Programs whose trees and features go together, without latencies.

    Args:
        path: where the arrays are from, to name in an error.
        arrays: by the names in :data:`ARRAYS`; of n programs, ``joined`` of which are kept.
        tasks: names.
        owner: (n,) ascending, which task each is of.

    Raises:
        DataError: they say what cannot be.
    """
    forest, features = check_described(path, arrays)
    joined = arrays["joined"].astype(bool)
    sizes = np.bincount(owner[joined], minlength=len(tasks))
    leaves = np.repeat(joined, arrays["leaves"])
    return Programs(
        features=features.astype(np.float16)[leaves],
        position=positions(forest).astype(np.int64)[leaves],
        loops=accesses.around(forest, arrays["accesses"])[leaves],
        starts=np.concatenate([[0], np.cumsum(arrays["leaves"][joined])]).astype(np.int64),
        seconds=np.full((int(joined.sum()), 0), np.nan),
        tasks=tuple(tasks),
        first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def check_described(path: Path, arrays: Mapping[str, np.ndarray]) -> tuple[Forest, np.ndarray]:
    """Trees are trees, and features are as many as the counts say, and numbers.

    Raises:
        DataError: if not.
    """
    count = len(arrays["hash"]) if arrays["hash"].ndim == 1 else 0
    for name, table in (("leaves", "features"), ("nodes", "depth")):
        numbers, rows = arrays[name], len(np.atleast_1d(arrays[table]))
        whole = numbers.shape == (count,) and numbers.dtype.kind in "iu"
        if not count or not whole or (numbers < 1).any() or numbers.sum() != rows:
            raise DataError(path, name, "other numbers", f"{count} counts that add up to {rows}")
    features = arrays["features"]
    largest = np.finfo(np.float16).max
    if features.shape[1:] != (WIDTH,) or not (np.abs(features) <= largest).all():
        raise DataError(path, "features", "no numbers", f"{WIDTH} numbers a leaf")
    patterns = arrays["accesses"]
    if (
        patterns.shape != (len(features), accesses.WIDTH)
        or not (np.abs(patterns) <= MOST_ACCESS).all()
    ):
        raise DataError(path, "accesses", "no numbers", f"{accesses.WIDTH} numbers a leaf")
    if any(arrays[name].dtype.kind not in "iu" for name in COLUMNS):
        raise DataError(path, "depth", "no whole numbers", "whole numbers of each loop")
    if arrays["joined"].shape != (count,):
        raise DataError(path, "joined", "other numbers", f"{count}, a flag a program")
    starts = np.cumsum(arrays["nodes"]) - arrays["nodes"]
    columns = (arrays[name].astype(dtype) for name, dtype in COLUMNS.items())
    forest = Forest(*columns, starts.astype(np.int64))
    if wrong := fault(forest):
        raise DataError(path, *wrong, "trees of loops in pre-order")
    counts = np.bincount(forest.tree_of_node[forest.leaves], minlength=len(forest))
    if not np.array_equal(counts, arrays["leaves"]):
        raise DataError(path, "leaves", "other numbers", "those of the trees")
    return forest, features
