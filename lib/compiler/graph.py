"""A cached graph as tensors: their shapes and sizes, and the operations that read them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lib.cache.graph import CachedGraph
from lib.compiler.orders import Order, row_major
from lib.tpugraphs.encoding import FEATURE_NAMES

LARGEST_RANK = 6  # the features show six dimensions of a larger shape
SHAPE = FEATURE_NAMES.index("shape_dimensions_0")
LAYOUT = FEATURE_NAMES.index("layout_minor_to_major_0")
PRODUCT = FEATURE_NAMES.index("shape_dimensions_product")
TYPE_BYTES = {  # element type: bytes; types without a size (tuple, token ...) have none
    "pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4,
    "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip


class TensorGraph:
    """A graph of n nodes, each an operation and the tensor that it outputs; k are configurable.

    Attributes:
        features: (n, 140) float32, as cached.
        opcode: (n,) uint8.
        shapes: shape of each node's output; a tensor of more than six dimensions shows six.
        operands, users: operands and users of each node, in the order of the edges.
        configurable: (k,) the configurable nodes.
    """

    def __init__(
        self, features: np.ndarray, opcode: np.ndarray, edges: np.ndarray, configurable: np.ndarray
    ):
        self.features, self.opcode = np.asarray(features), np.asarray(opcode)
        self.configurable = np.asarray(configurable)
        self.operands: list[list[int]] = [[] for _ in range(len(opcode))]
        self.users: list[list[int]] = [[] for _ in range(len(opcode))]
        for user, operand in np.asarray(edges).tolist():
            self.operands[user].append(operand)
            self.users[operand].append(user)
        shown = self.features[:, SHAPE : SHAPE + LARGEST_RANK].astype(np.int64)
        self.shapes = [tuple(size for size in sizes if size > 0) for sizes in shown.tolist()]

    @classmethod
    def of(cls, graph: CachedGraph) -> TensorGraph:
        """Return the tensors of a cached graph: of all nodes, or of those that pruning kept."""
        return cls(graph.node_feat, graph.node_opcode, graph.edges, graph.config_nodes)

    @cached_property
    def bytes(self) -> np.ndarray:
        """Bytes of each node's output, (n,) float64."""
        width = np.zeros(len(self.features))
        for name, size in TYPE_BYTES.items():
            width += size * self.features[:, FEATURE_NAMES.index(f"shape_element_type_is_{name}")]
        return width * self.features[:, PRODUCT]

    @cached_property
    def plain(self) -> list[Order]:
        """Order of each output in the program itself; row-major if the program names none."""
        digits = self.features[:, LAYOUT : LAYOUT + LARGEST_RANK]
        digits = np.clip(digits, -1, LARGEST_RANK).astype(np.int64)  # all else is no dimension
        orders = []
        for shape, shown in zip(self.shapes, digits.tolist(), strict=True):
            order = tuple(shown[: len(shape)])
            is_permutation = sorted(order) == list(range(len(shape)))
            orders.append(order if is_permutation else row_major(len(shape)))
        return orders

    def rank(self, node: int) -> int:
        """Return the number of dimensions of a node's output."""
        return len(self.shapes[node])

    def feature(self, node: int, name: str) -> int:
        """Return a node feature that is a whole number, by its name in the encoding."""
        return int(self.features[node, FEATURE_NAMES.index(name)])
