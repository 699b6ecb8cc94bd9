"""Costs of a layout on a TPU: how far it pads a tensor, and how much work the padding slows.

A TPU keeps the two minor-most dimensions of a tensor in tiles of 128 lanes and up to 8 sublanes,
and pads a dimension that ends early. Tiles are compact: along the second dimension they have 2 rows
for up to 2 elements, 4 for up to 4, else 8. A product (convolution or dot) whose output has a short
minor-most dimension leaves most of its lanes empty, so the cost of a layout grows with the work of
the product. (https://openxla.org/xla/tiled_layout; profiles of MLPerf programs on TPU v3 show the
compact tiles.)

Only the two minor-most dimensions count here. A configuration of a convolution names just these,
of another operation it names all. If it names fewer than two that the tensor has, the program's own
minor-most dimensions follow.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from lib.compiler.graph import LARGEST_RANK, TensorGraph
from lib.compiler.operands import ROLES, constrained_tensors, dot_numbers
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.opcodes import CONVOLUTION, DOT

LANES = 128
SUBLANES = (2, 4, 8)
MINOR, SECOND = 0, 1  # dimensions of a tile
WINDOW = FEATURE_NAMES.index("window_size_product")
PER_NODE = ("convolution", "dot", "work", "bytes", "window")
PER_TENSOR = ("there", "set", "minor", "second", "lanes", "tiles", "minor_stays", "bytes", "rank")
PRODUCT_FEATURES = (*PER_NODE, *(f"{role}.{name}" for role in ROLES for name in PER_TENSOR))
ROLE_OF_FEATURE = (  # role of the tensor that a feature describes; -1 for the node itself
    *(-1 for _ in PER_NODE),
    *(role for role in range(len(ROLES)) for _ in PER_TENSOR),
)
SIZE_SCALE, LARGE_SCALE, RANK_SCALE = 8.0, 20.0, 4.0


class ConfiguredNodes:
    """The k configurable nodes of a program, and the tensors that their layouts constrain.

    Attributes:
        graph: the program.
        tensors: (k, 3) nodes whose outputs they are, by role; -1 for a role without a tensor.
        sizes: (k, 3, 6) sizes of their dimensions, 1 beyond their rank.
        ranks: (k, 3) numbers of their dimensions, 0 for a role without a tensor.
        plain: (k, 3, 6) their dimensions, minor to major, in the program; 0 beyond their rank.
    """

    def __init__(self, graph: TensorGraph):
        constrained = [constrained_tensors(graph, n).tensors for n in graph.configurable.tolist()]
        self.graph, self.tensors = graph, np.array(constrained, np.int64).reshape(-1, len(ROLES))
        self.ranks = np.zeros(self.tensors.shape, np.int64)
        shape = (*self.tensors.shape, LARGEST_RANK)
        self.sizes, self.plain = np.ones(shape, np.int64), np.zeros(shape, np.int64)
        for place in zip(*np.nonzero(self.tensors >= 0), strict=True):
            tensor = int(self.tensors[place])
            rank = self.ranks[place] = graph.rank(tensor)
            self.sizes[place][:rank] = graph.shapes[tensor]
            self.plain[place][:rank] = graph.plain[tensor]

    @cached_property
    def work(self) -> np.ndarray:
        """Multiply-adds of each product, (k,) float64; 0 of a node that is no product."""
        places = range(len(self.tensors))
        return np.array([_work(self.graph, self.tensors[place].tolist()) for place in places])

    def minor(self, place: np.ndarray, layouts: np.ndarray) -> np.ndarray:
        """Return the two minor-most dimensions of each tensor in its layout.

        Args:
            place: (r,) positions among the nodes.
            layouts: (r, 3, 6) digits of a configuration, minor to major, -1 padded.

        Returns:
            (r, 3, 2) numbers of dimensions; 0 beyond the tensor's rank.
        """
        plain, rank = self.plain[place], self.ranks[place]
        first, second = (layouts[..., d].astype(np.int64) for d in (MINOR, SECOND))
        first = np.where((first >= 0) & (first < rank), first, plain[..., MINOR])
        next_plain = np.where(plain[..., MINOR] == first, plain[..., SECOND], plain[..., MINOR])
        set_well = (second >= 0) & (second < rank) & (second != first)
        second = np.where(set_well, second, next_plain)
        return np.stack([first, np.where(rank > 1, second, 0)], axis=-1)

    def tile_sizes(self, place: np.ndarray, dimensions: np.ndarray) -> np.ndarray:
        """Return the sizes of (r, 3, 2) dimensions from :meth:`minor`; 1 beyond a tensor's rank."""
        sizes = np.take_along_axis(self.sizes[place], dimensions, axis=-1)
        sizes[..., SECOND] = np.where(self.ranks[place] > 1, sizes[..., SECOND], 1)
        return sizes


def lane_padding(sizes: np.ndarray) -> np.ndarray:
    """Return lanes occupied over lanes used, for minor-most dimensions of these sizes."""
    return -(-sizes // LANES) * LANES / sizes


def tile_padding(sizes: np.ndarray) -> np.ndarray:
    """Return memory over elements, for (..., 2) sizes of the two minor-most dimensions."""
    rows = sizes[..., SECOND]
    tile = np.select([rows <= most for most in SUBLANES], SUBLANES, SUBLANES[-1])  # compact
    return lane_padding(sizes[..., MINOR]) * (-(-rows // tile) * tile) / rows


def output_padding(nodes: ConfiguredNodes, place: np.ndarray, layouts: np.ndarray) -> np.ndarray:
    """Return how much further layouts pad outputs along lanes than the program, (r,) logarithms.

    Arguments are those of :meth:`ConfiguredNodes.minor`.
    """
    configured = nodes.tile_sizes(place, nodes.minor(place, layouts))
    plain = nodes.tile_sizes(place, nodes.plain[place][..., :2])
    lanes = [lane_padding(sizes[:, 0, MINOR]) for sizes in (configured, plain)]
    return np.log(lanes[0] / lanes[1])


def _work(graph: TensorGraph, tensors: list[int]) -> float:
    """Return the multiply-adds of a node with these tensors; 0 if it is no product of them."""
    node, source, kernel = tensors
    if kernel < 0:
        return 0.0
    outputs = float(prod(graph.shapes[node]))
    if graph.opcode[node] == CONVOLUTION:
        number = graph.feature(node, "convolution_dim_numbers_kernel_input_feature_dim")
        features = graph.shapes[kernel][number] if number < graph.rank(kernel) else 1
        return outputs * features * max(1, graph.feature(node, "window_size_product"))
    if graph.opcode[node] == DOT:
        numbers = dot_numbers(graph.shapes[source], graph.shapes[kernel], graph.shapes[node])
        summed = numbers.contracted[0] if numbers else ()
        return outputs * prod(graph.shapes[source][d] for d in summed)
    return 0.0


def product_features(nodes: ConfiguredNodes, place: np.ndarray, layouts: np.ndarray) -> np.ndarray:
    """Return ``PRODUCT_FEATURES`` of nodes under their three layouts, (r, width) float32.

    Sizes, padding, work and bytes are logarithms. Arguments are those of
    :meth:`ConfiguredNodes.minor`.
    """
    graph, tensors = nodes.graph, nodes.tensors[place]
    node, there = tensors[:, 0], (tensors >= 0) & (nodes.ranks[place] > 0)
    dimensions = nodes.minor(place, layouts)
    sizes = nodes.tile_sizes(place, dimensions)
    window = graph.features[node, WINDOW]
    bytes_of = np.log2(np.maximum(1.0, graph.bytes)) / LARGE_SCALE
    per_node = (
        graph.opcode[node] == CONVOLUTION,
        graph.opcode[node] == DOT,
        np.log2(np.maximum(1.0, nodes.work[place])) / LARGE_SCALE,
        bytes_of[node],
        np.log2(np.maximum(1.0, window)) / SIZE_SCALE,
    )
    per_tensor = (
        np.ones_like(there),
        layouts[..., MINOR] >= 0,
        np.log2(sizes[..., MINOR]) / SIZE_SCALE,
        np.log2(sizes[..., SECOND]) / SIZE_SCALE,
        np.log2(lane_padding(sizes[..., MINOR])) / SIZE_SCALE,
        np.log2(tile_padding(sizes)) / SIZE_SCALE,
        dimensions[..., MINOR] == nodes.plain[place][..., MINOR],
        bytes_of[tensors],
        nodes.ranks[place] / RANK_SCALE,
    )
    roles = np.stack(per_tensor, axis=-1) * there[..., None]  # (r, 3, names)
    return np.column_stack([*per_node, roles.reshape(len(place), -1)]).astype(np.float32)
