"""Compact abstract syntax trees of tensor programs (CDMPP, section 4).

A program is a tree of loops whose leaves are the statements that compute and store. It is kept as
flat arrays in pre-order, one entry a node; how deep a node lies says whose child it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

SERIAL, PARALLEL, VECTORIZED, UNROLLED, LEAF = range(5)
KINDS = ("serial", "parallel", "vectorized", "unrolled", "leaf")
MARK = -1  # follows a leaf in the serialized tree
NO_ROW = -1  # a leaf without features: it stores a constant, or another leaf stores there later


@dataclass(frozen=True)
class Tree:
    """A tree of ``n`` nodes in pre-order.

    Attributes:
        depth: (n,) int16, 0 for a node without a parent.
        kind: (n,) int8, an index into :data:`KINDS`.
        extent: (n,) int32, iterations of a loop, 1 for a leaf.
        unroll: (n,) int16, the most steps that the compiler is told to unroll inside, 0 if none.
        row: (n,) int16, which row of features a leaf has, :data:`NO_ROW` for none and for loops.
    """

    depth: np.ndarray
    kind: np.ndarray
    extent: np.ndarray
    unroll: np.ndarray
    row: np.ndarray

    def __len__(self) -> int:
        return len(self.depth)

    @property
    def leaves(self) -> np.ndarray:
        """Nodes that have features, in the order of their rows."""
        found = np.flatnonzero(self.row != NO_ROW)
        return found[np.argsort(self.row[found], kind="stable")]


TYPES = {"depth": "int16", "kind": "int8", "extent": "int32", "unroll": "int16", "row": "int16"}


def from_nodes(nodes: list[tuple[int, int, int, int, int]]) -> Tree:
    """A tree of (depth, kind, extent, unroll, row) tuples in pre-order."""
    table = np.array(nodes, np.int64).reshape(-1, len(TYPES))
    columns = {name: table[:, k].astype(dtype) for k, (name, dtype) in enumerate(TYPES.items())}
    return Tree(**columns)


def fault(tree: Tree) -> str | None:
    """What makes the arrays no tree, as ``field: what is wrong``; ``None`` if they are one."""
    n = len(tree)
    for name in TYPES:
        if getattr(tree, name).shape != (n,):
            return f"{name}: its length is not that of depth"
    if not n or tree.depth[0] != 0:
        return "depth: the first node must have depth 0"
    leaf = tree.kind == LEAF
    if (tree.depth < 0).any() or (np.diff(tree.depth) > ~leaf[:-1]).any():
        return "depth: a node lies below one that is no loop"
    if ((tree.kind < 0) | (tree.kind > LEAF)).any():
        return f"kind: not from 0 to {LEAF}"
    last = np.append(tree.depth[1:] <= tree.depth[:-1], True)
    if (last & ~leaf).any():
        return "kind: a loop without a body"
    if (tree.extent < 1).any() or (tree.extent[leaf] != 1).any():
        return "extent: must be positive, and 1 for a leaf"
    rows = np.sort(tree.row[tree.row != NO_ROW])
    if not np.array_equal(rows, np.arange(len(rows))) or (tree.row[~leaf] != NO_ROW).any():
        return "row: leaves must have the rows 0, 1, ... once each, loops none"
    return None


def serialized(tree: Tree, every_node: bool = False) -> np.ndarray:
    """The pre-order sequence: a node's number, and :data:`MARK` after each leaf.

    ``every_node`` puts a mark after each node, as the published code of CDMPP does.
    """
    marked = np.ones(len(tree), bool) if every_node else tree.kind == LEAF
    places = np.arange(len(tree)) + np.cumsum(marked) - marked
    sequence = np.full(len(tree) + int(marked.sum()), MARK, np.int64)
    sequence[places] = np.arange(len(tree))
    return sequence


def positions(tree: Tree, every_node: bool = False) -> np.ndarray:
    """The ordering vector: where in :func:`serialized` each leaf stands, by row of features."""
    marked = np.ones(len(tree), bool) if every_node else tree.kind == LEAF
    places = np.arange(len(tree)) + np.cumsum(marked) - marked
    return places[tree.leaves]


def loop_nests(tree: Tree) -> Iterator[list[int]]:
    """For each row of features the loops around its leaf, outermost first, as node numbers."""
    around: list[list[int]] = []
    path: list[int] = []
    for node in range(len(tree)):
        del path[tree.depth[node] :]
        around.append(list(path))
        path.append(node)
    for leaf in tree.leaves:
        yield around[leaf]


def positional_encoding(
    ordering: np.ndarray, width: int, theta: float = 10000.0, exponent: float = 1.0
) -> np.ndarray:
    """Section 4.2: sine in even and cosine in odd columns of the position over powers of theta.

    Args:
        ordering: (leaves,) what :func:`positions` returns.
        width: columns, the length of a computation vector (N_entry).
        theta: the base of the frequencies.
        exponent: 1 is the paper's theta^(2d / width); the published code doubles it.

    Returns:
        (leaves, width) float32.
    """
    half = np.arange(0, width, 2) / width * exponent
    angle = np.asarray(ordering, np.float64)[:, None] / theta**half
    encoded = np.empty((len(angle), width), np.float32)
    encoded[:, 0::2] = np.sin(angle)
    encoded[:, 1::2] = np.cos(angle)[:, : width // 2]
    return encoded
