"""Effects of configurations as numbers that a network can learn costs from.

A copy costs more the further apart in memory the elements are that it reads one after the other
(:mod:`lib.compiler.cpu.moves`), and the more is computed in its loop
(:mod:`lib.compiler.cpu.chains`). An off-layout operation is described by the order that it works
in. A repeated operation costs as much as the repeated work, roughly. This is known: its features
are the kind of the work, and the amount of it at a time.

The names of dimensions do not matter: a program with its dimensions renamed has the same features.
Sizes are logarithms to base 2, divided so that they are around 1.

``COPY_FEATURES``, ``OFF_LAYOUT_FEATURES`` and ``REPEATED_FEATURES`` name the features in their
order; the part of a name before its first dot is its group. All features are for CPUs; those for
TPUs are in :mod:`lib.compiler.tpu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import NamedTuple

import numpy as np

from lib.compiler.cpu.chains import FUNCTION_NAMES, Chains, is_elementwise
from lib.compiler.cpu.effects import CopySite, LayoutCopy, Reason, RepeatedOperation
from lib.compiler.cpu.library import REDUCE, REDUCE_WINDOW, Library
from lib.compiler.cpu.moves import (
    BYTES_SCALE,
    MEMORY_FEATURES,
    RANK_SCALE,
    SCALE,
    MovedTensor,
    logarithm,
    memory_features,
    named,
)
from lib.compiler.graph import TensorGraph
from lib.compiler.orders import Order, squeezed, strides
from lib.tpugraphs.opcodes import CONVOLUTION, DOT, ID_OF_NAME

FUNCTIONS_SCALE, MOST_COUNTED = 2.0, 4  # functions in a chain, users of a tensor
SLICING = (
    "pad", "slice", "dynamic-slice", "dynamic-update-slice", "gather", "scatter", "reverse",
)  # fmt: skip
OPERATIONS = {  # opcodes in groups that another order affects alike
    "reduction": ("reduce",),
    "window": ("reduce-window", "select-and-scatter"),
    "concatenation": ("concatenate",),
    "slicing": SLICING,
    "broadcast": ("broadcast",),
    "transpose": ("transpose",),
    "reshape": ("reshape",),
    "function": FUNCTION_NAMES,
    "parameter": ("parameter",),
    "constant": ("constant", "iota"),
    "product": ("dot", "convolution"),
}
GROUPS = (*OPERATIONS, "other")  # all other operations are elementwise
GROUP_OF = {
    ID_OF_NAME[name]: place for place, group in enumerate(OPERATIONS) for name in OPERATIONS[group]
}
KINDS = {"convolution": CONVOLUTION, "dot": DOT, "reduce": REDUCE, "window": REDUCE_WINDOW}
WORK = 64.0  # multiplications for an element that cost as much as the bytes of the element


class OperationShape(NamedTuple):
    """Memory accesses of an operation that works in another order."""

    moves_data: float  # always 0: it stays so that the inputs of networks keep their width
    is_off_layout: float  # always 1, likewise
    fastest_size: float
    plain_fastest_stride: float  # stride of the dimension that is fastest in the plain order
    bytes: float
    rank: float


class ChainWork(NamedTuple):
    """Operations that are computed before a tensor is written, and after it is read."""

    functions_before: float
    operations_before: float
    functions_after: float
    operations_after: float
    writer_is_elementwise: float
    reader_is_elementwise: float
    users: float


COPY_FEATURES = (
    *MEMORY_FEATURES,
    *named("chain", ChainWork._fields),
    *named("reason", (reason.name.lower() for reason in Reason)),
    *named("writer", GROUPS),
    *named("reader", GROUPS),
)
OFF_LAYOUT_FEATURES = (
    *named("operation", OperationShape._fields),
    *named("chain", ChainWork._fields),
    *named("opcode", GROUPS),
)
REPEATED_FEATURES = (
    *named("repeated", ("times", "work", "bytes", "features", "window", "groups")),
    *named("repeated", (f"is_{kind}" for kind in KINDS)),
)


def copy_features(
    chains: Chains,
    copies: Sequence[CopySite | LayoutCopy],
    moves: Sequence[tuple[MovedTensor, Order, Order]],
) -> np.ndarray:
    """Return ``COPY_FEATURES`` of m layout copies, (m, width) float32.

    Args:
        chains: those of the program.
        copies: the place of each copy, and its reason.
        moves: the tensor of each copy, and its orders before and after, which differ in memory.
    """
    if not copies:
        return np.zeros((0, len(COPY_FEATURES)), np.float32)
    rows = []
    for copy, move in zip(copies, moves, strict=True):
        where = copy.tensor, copy.reader, copy.reason
        if where not in chains.around:
            features = [
                *_chain_work(chains, copy.tensor, copy.reader),
                *_one_hot(copy.reason, len(Reason)),
                *_one_hot_group(chains.graph, copy.tensor),
                *_one_hot_group(chains.graph, copy.reader),
            ]
            chains.around[where] = np.array(features, np.float32)
        rows += memory_features(*move), chains.around[where]
    return np.concatenate(rows).reshape(len(copies), -1)


def off_layout_features(chains: Chains, node: int, order: Order) -> list[float]:
    """Return ``OFF_LAYOUT_FEATURES`` of an operation that works in an order."""
    graph, shape = chains.graph, chains.graph.shapes[node]
    fastest, plain = squeezed(order, shape)[0], squeezed(graph.plain[node], shape)[0]
    return [
        *OperationShape(
            moves_data=0.0,
            is_off_layout=1.0,
            fastest_size=logarithm(shape[fastest]),
            plain_fastest_stride=logarithm(strides(order, shape)[plain]),
            bytes=log2(max(1.0, graph.bytes[node])) / BYTES_SCALE,
            rank=graph.rank(node) / RANK_SCALE,
        ),
        *_chain_work(chains, node, node),
        *_one_hot_group(graph, node),
    ]


def repeated_features(library: Library, operation: RepeatedOperation) -> list[float]:
    """Return ``REPEATED_FEATURES`` of a repeated operation, logarithms but for its kind."""
    graph, node = library.graph, operation.node
    opcode = int(graph.opcode[node])
    return [
        log2(operation.times) / SCALE,
        log2(library.work(node)) / SCALE,
        log2(max(1.0, graph.bytes[node])) / BYTES_SCALE,
        logarithm(graph.shapes[node][-1]),
        logarithm(graph.feature(node, "window_size_product")),
        logarithm(graph.feature(node, "feature_group_count")),
        *(float(opcode == kind) for kind in KINDS.values()),
    ]


def repeated_work(library: Library, operation: RepeatedOperation) -> float:
    """Return the superfluous work, as bytes of the operation's output that cost as much."""
    once = float(library.graph.bytes[operation.node]) * library.work(operation.node) / WORK
    return once * (operation.times - 1)


def _chain_work(chains: Chains, writer: int, reader: int) -> ChainWork:
    """Return the work above the node that writes a tensor, and below the one that reads it."""
    graph = chains.graph
    functions_before, operations_before = chains.counts(writer, up=True)
    functions_after, operations_after = chains.counts(reader, up=False)
    return ChainWork(
        functions_before=min(MOST_COUNTED, functions_before) / FUNCTIONS_SCALE,
        operations_before=logarithm(1 + operations_before),
        functions_after=min(MOST_COUNTED, functions_after) / FUNCTIONS_SCALE,
        operations_after=logarithm(1 + operations_after),
        writer_is_elementwise=float(is_elementwise(graph, writer)),
        reader_is_elementwise=float(is_elementwise(graph, reader)),
        users=min(MOST_COUNTED, len(graph.users[writer])) / FUNCTIONS_SCALE,
    )


def _one_hot_group(graph: TensorGraph, node: int) -> list[float]:
    """Return the place of a node's opcode among ``GROUPS``, one-hot."""
    return _one_hot(GROUP_OF.get(int(graph.opcode[node]), len(OPERATIONS)), len(GROUPS))


def _one_hot(value: int, count: int) -> list[float]:
    vector = [0.0] * count
    vector[value] = 1.0
    return vector
