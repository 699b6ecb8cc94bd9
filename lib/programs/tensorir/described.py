"""Programs as arrays: what TVM's environment says of them, in raw files and in messages.

See :func:`lib.collect.tvm.raw.described`, which makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.programs.tensorir.accesses import MOST_ACCESS
from lib.programs.tensorir.accesses import WIDTH as ACCESSES
from lib.programs.tensorir.features import WIDTH
from lib.programs.tensorir.tree import COLUMNS, Forest, fault

ARRAYS = (*COLUMNS, "hash", "joined", "leaves", "nodes", "features", "accesses")


def check_described(path: Path, arrays: Mapping[str, np.ndarray]) -> tuple[Forest, np.ndarray]:
    """Check that trees are trees, and features are numbers, as many as the counts say.

    Raises:
        DataError: if not.
    """
    if missing := [name for name in ARRAYS if name not in arrays]:
        raise DataError(path, missing[0], "nothing", "an array")
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
    if patterns.shape != (len(features), ACCESSES) or not (np.abs(patterns) <= MOST_ACCESS).all():
        raise DataError(path, "accesses", "no numbers", f"{ACCESSES} numbers a leaf")
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
