"""Compact abstract syntax trees of tensor programs (CDMPP, section 4).

A program is a tree of loops whose leaves are the statements that compute and store. Trees are kept
as flat arrays in pre-order, one entry a node; a node's depth says whose child it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

SERIAL, PARALLEL, VECTORIZED, UNROLLED, LEAF = range(5)  # kinds of nodes
NO_ROW = -1  # a leaf without features: it stores a constant, or another leaf stores there later
COLUMNS = {
    "depth": np.int16,
    "kind": np.int8,
    "extent": np.int32,
    "unroll": np.int16,
    "row": np.int16,
}


@dataclass(frozen=True)
class Forest:
    """The trees of some programs, one after the other: ``n`` nodes in pre-order.

    Attributes:
        depth: (n,) int16, 0 for a node without a parent; a tree may have several of them.
        kind: (n,) int8, ``SERIAL`` to ``LEAF``.
        extent: (n,) int32, iterations of a loop, 1 for a leaf.
        unroll: (n,) int16, the most steps that the compiler may unroll inside, 0 if none.
        row: (n,) int16, which row of its program's features a leaf has, :data:`NO_ROW` for none
            and for loops.
        starts: (trees,) int64, the first node of each tree.
    """

    depth: np.ndarray
    kind: np.ndarray
    extent: np.ndarray
    unroll: np.ndarray
    row: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def nodes(self) -> int:
        """Number of nodes of all trees."""
        return len(self.depth)

    @property
    def tree_of_node(self) -> np.ndarray:
        """(n,) which tree each node belongs to."""
        first = np.zeros(self.nodes, np.int64)
        first[self.starts] = 1
        return np.cumsum(first) - 1

    @property
    def leaves(self) -> np.ndarray:
        """The nodes that have features, in the order of trees and of their rows."""
        nodes = np.flatnonzero(self.row != NO_ROW)
        return nodes[np.lexsort((self.row[nodes], self.tree_of_node[nodes]))]

    def tree(self, k: int) -> Forest:
        """Return the ``k``-th tree alone."""
        stop = self.starts[k + 1] if k + 1 < len(self) else self.nodes
        part = slice(self.starts[k], stop)
        return Forest(*(getattr(self, name)[part] for name in COLUMNS), np.zeros(1, np.int64))


def from_nodes(nodes: Sequence[tuple[int, int, int, int, int]]) -> Forest:
    """Return one tree of (depth, kind, extent, unroll, row) tuples in pre-order."""
    table = np.array(nodes, np.int64).reshape(-1, len(COLUMNS))
    columns = (table[:, k].astype(dtype) for k, dtype in enumerate(COLUMNS.values()))
    return Forest(*columns, np.zeros(1, np.int64))


def fault(forest: Forest) -> tuple[str, str] | None:
    """Return why the arrays are no trees: a column, and its fault; ``None`` if they are trees."""
    n, starts = forest.nodes, forest.starts
    if any(getattr(forest, name).shape != (n,) for name in COLUMNS):
        return "depth", "columns of different lengths"
    sizes = np.diff(starts, append=n)
    if not len(starts) or starts[0] != 0 or (sizes < 1).any():
        return "nodes", "a program without any"
    leaf = forest.kind == LEAF
    first = np.zeros(n, bool)
    first[starts] = True
    if (forest.depth < 0).any() or (forest.depth[first] != 0).any():
        return "depth", "a program that does not begin at depth 0"
    depth = forest.depth.astype(np.int64)
    below = ~first[1:] & (np.diff(depth) > 0)
    if (np.diff(depth)[below] > 1).any() or leaf[:-1][below].any():
        return "depth", "a node below one that is no loop"
    if ((forest.kind < 0) | (forest.kind > LEAF)).any():
        return "kind", f"a number not from 0 to {LEAF}"
    if (~np.append(below, False) & ~leaf).any():
        return "kind", "a loop without a body"
    if (forest.extent < 1).any() or (forest.extent[leaf] != 1).any():
        return "extent", "iterations below 1, or a leaf with several"
    if (forest.row < NO_ROW).any() or (forest.row[~leaf] != NO_ROW).any():
        return "row", "a loop with features"
    nodes = forest.leaves
    tree = forest.tree_of_node[nodes]
    rank = np.arange(len(nodes)) - np.searchsorted(tree, tree)
    if not np.array_equal(forest.row[nodes], rank):
        return "row", "rows of a program that are not 0, 1, ... once each"
    return None


def positions(forest: Forest) -> np.ndarray:
    """Return the ordering vectors: the place of each leaf with features in the pre-order sequence
    of its program, in which a mark follows each leaf. (The published code has one after each node.)

    Returns:
        (leaves,) int64, in the order of :attr:`Forest.leaves`.
    """
    leaf = forest.kind == LEAF
    before = np.arange(forest.nodes) + np.cumsum(leaf) - leaf
    places = before - before[forest.starts][forest.tree_of_node]
    return places[forest.leaves]


def loop_nests(tree: Forest) -> Iterator[list[int]]:
    """Yield the loops around each leaf with features, outermost first, as node numbers."""
    around: list[list[int]] = []
    path: list[int] = []
    for node in range(tree.nodes):
        del path[tree.depth[node] :]
        around.append(list(path))
        path.append(node)
    for leaf in tree.leaves:
        yield around[leaf]
