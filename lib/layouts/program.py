"""A cached graph as a program: shapes, sizes, and who reads what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lib.cache.graph import CachedGraph
from lib.layouts.orders import Order, row_major
from lib.tpugraphs.encoding import FEATURE_NAMES

RANK = 6  # of the largest shape that the features show
SHAPE = FEATURE_NAMES.index("shape_dimensions_0")
LAYOUT = FEATURE_NAMES.index("layout_minor_to_major_0")
PRODUCT = FEATURE_NAMES.index("shape_dimensions_product")
DIMENSIONS = FEATURE_NAMES.index("dimensions_0")
IS_ROOT = FEATURE_NAMES.index("is_root")
TYPE_BYTES = {  # element type: bytes; types without a size (tuple, token ...) count nothing
    "pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4,
    "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Program:
    """A graph of n nodes, k of them configurable.

    Attributes:
        features: (n, 140) float32, as cached.
        opcode: (n,) uint8.
        shapes: of each node's output; a tensor of more than six dimensions shows six.
        operands, users: of each node, in the order of the edges.
        sites: (k,) the configurable nodes.
    """

    features: np.ndarray
    opcode: np.ndarray
    shapes: list[tuple[int, ...]]
    operands: list[list[int]]
    users: list[list[int]]
    sites: np.ndarray

    @classmethod
    def of(cls, graph: CachedGraph) -> Program:
        """The program of a cached graph: all of it, or the part that pruning kept."""
        count = len(graph.node_opcode)
        operands: list[list[int]] = [[] for _ in range(count)]
        users: list[list[int]] = [[] for _ in range(count)]
        for user, operand in np.asarray(graph.edges).tolist():
            operands[user].append(operand)
            users[operand].append(user)
        sizes = np.asarray(graph.node_feat[:, SHAPE : SHAPE + RANK]).astype(np.int64).tolist()
        shapes = [tuple(size for size in row if size > 0) for row in sizes]
        features, opcode = np.asarray(graph.node_feat), np.asarray(graph.node_opcode)
        return cls(features, opcode, shapes, operands, users, np.asarray(graph.config_nodes))

    @cached_property
    def bytes(self) -> np.ndarray:
        """Of each node's output, (n,) float64."""
        return tensor_bytes(self.features)

    def plain(self, node: int) -> Order:
        """The order of a node's output in the program as it stands; row-major if it says none."""
        rank = len(self.shapes[node])
        order = tuple(int(d) for d in self.features[node, LAYOUT : LAYOUT + rank])
        return order if sorted(order) == list(range(rank)) else row_major(rank)

    def number(self, node: int, feature: str) -> int:
        """A node feature that is a whole number."""
        return int(self.features[node, FEATURE_NAMES.index(feature)])

    def permutation(self, node: int) -> tuple[int, ...]:
        """Of a transpose: which dimension of the operand each of the output's is."""
        row = self.features[node, DIMENSIONS : DIMENSIONS + len(self.shapes[node])]
        return tuple(int(d) for d in row)


def tensor_bytes(node_feat: np.ndarray) -> np.ndarray:
    """Bytes of each node's output, (n,) float64."""
    width = np.zeros(len(node_feat))
    for name, size in TYPE_BYTES.items():
        width += size * node_feat[:, FEATURE_NAMES.index(f"shape_element_type_is_{name}")]
    return width * node_feat[:, PRODUCT]
