"""Programs as TVM's environment describes them, nothing measured: what a predictor reads of them.

See :func:`lib.collect.tvm.raw.described`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lib.programs.inputs import Programs
from lib.programs.tensorir import accesses
from lib.programs.tensorir.described import check_described
from lib.programs.tensorir.tree import positions


def described_programs(
    path: Path, arrays: Mapping[str, np.ndarray], tasks: Sequence[str], owner: np.ndarray
) -> Programs:
    """Programs whose trees and features go together, without latencies.

    Args:
        path: where the arrays are from, to name in an error.
        arrays: of n programs, by the names in :data:`lib.programs.tensorir.described.ARRAYS`;
            those that are ``joined`` are kept.
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
