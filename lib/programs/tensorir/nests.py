"""The loops around each leaf as a row of numbers: what `PerStoreFeature` adds up, one by one."""

from __future__ import annotations

import numpy as np

from lib.programs.tensorir.tree import Forest

INNERMOST = 8  # loops that have columns of their own
SUMS = (3, 5)  # innermost loops whose iterations are multiplied
ABSENT = -1.0
COLUMNS: tuple[str, ...] = (
    *(f"extent{k}" for k in range(INNERMOST)),  # log2 of iterations, innermost first
    *(f"kind{k}" for k in range(INNERMOST)),  # lib/programs/tensorir/tree.py: SERIAL, PARALLEL, ...
    "loops",
    "outer_product",  # log2 of the iterations of all other loops together
    *(f"product{k}" for k in SUMS),
)
WIDTH = len(COLUMNS)


def nests(forest: Forest) -> np.ndarray:
    """Return (leaves, ``WIDTH``) float16 of the loops around each leaf that has features.

    In the order of :attr:`Forest.leaves`; ``ABSENT`` where there is no such loop.
    """
    leaves = forest.leaves
    depth = forest.depth.astype(np.int64)
    most = int(depth[leaves].max(initial=0))
    around = np.full((len(leaves), max(most, INNERMOST)), -1)  # nodes, innermost first
    number = np.arange(forest.nodes)
    for level in range(most):
        latest = np.maximum.accumulate(np.where(depth == level, number, -1))
        inside = depth[leaves] > level
        around[inside, depth[leaves][inside] - 1 - level] = latest[leaves][inside]
    there = around >= 0
    extents = np.where(there, np.log2(forest.extent[around]), 0.0)
    rows = np.full((len(leaves), WIDTH), ABSENT)
    inner = slice(0, INNERMOST)
    rows[:, :INNERMOST] = np.where(there[:, inner], extents[:, inner], ABSENT)
    rows[:, INNERMOST : 2 * INNERMOST] = np.where(
        there[:, inner], forest.kind[around[:, inner]], ABSENT
    )
    products = [extents[:, :count].sum(1) for count in SUMS]
    rest = [there.sum(1), extents[:, INNERMOST:].sum(1), *products]
    rows[:, 2 * INNERMOST :] = np.stack(rest, axis=1)
    return rows.astype(np.float16)
