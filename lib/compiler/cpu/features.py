"""Layout copies and off-layout operations as numbers that a network can learn costs from.

What a copy costs depends on how far apart in memory the elements are that are read one after the
other, on how long runs stay together, on sizes (:mod:`lib.compiler.cpu.moves`), on what the caches
make of it (:mod:`lib.compiler.cpu.locality`) and on what is computed on the way
(:mod:`lib.compiler.cpu.chains`); not on the names of dimensions. So the features say that, as
logarithms to base 2 (divided, to lie around 1), and the same program with its dimensions renamed
has the same features.

``COPY_FEATURES`` and ``OFF_LAYOUT_FEATURES`` name them in their order; what is before a name's
first dot is the group that it belongs to. All of it is about CPUs (:mod:`lib.compiler.tpu`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import NamedTuple

import numpy as np

from lib.compiler.cpu.chains import Chains, is_elementwise
from lib.compiler.cpu.effects import CopySite, LayoutCopy, Reason
from lib.compiler.cpu.moves import MEMORY_FEATURES, MovedTensor, logarithm, memory_features, named
from lib.compiler.cpu.nodes import (
    BYTES_SCALE,
    FUNCTIONS_SCALE,
    GROUPS,
    MOST_COUNTED,
    RANK_SCALE,
    group_of,
)
from lib.compiler.graph import TensorGraph
from lib.compiler.orders import Order, squeezed, strides


class OperationShape(NamedTuple):
    """What an operation that works in another order does to memory."""

    moves_data: float  # of nothing that is found today: what a network reads keeps its width
    is_off_layout: float
    fastest_size: float
    plain_fastest_stride: float  # of what would be the fastest dimension in the plain order
    bytes: float
    rank: float


class ChainWork(NamedTuple):
    """What is computed before a tensor is written, and after it is read."""

    functions_before: float
    operations_before: float
    functions_after: float
    operations_after: float
    writer_is_elementwise: float
    reader_is_elementwise: float
    users: float


AROUND = (  # what is the same of all copies of a tensor for a reader
    *named("chain", ChainWork._fields),
    *named("reason", (reason.name.lower() for reason in Reason)),
    *named("writer", GROUPS),
    *named("reader", GROUPS),
)
COPY_FEATURES = (*MEMORY_FEATURES, *AROUND)
OFF_LAYOUT_FEATURES = (
    *named("operation", OperationShape._fields),
    *named("chain", ChainWork._fields),
    *named("opcode", GROUPS),
)


def copy_features(
    chains: Chains,
    copies: Sequence[CopySite | LayoutCopy],
    moves: Sequence[tuple[MovedTensor, Order, Order]],
) -> np.ndarray:
    """``COPY_FEATURES`` of m layout copies, (m, width) float32: where and why each is, and what it
    moves, between which orders, that differ in memory."""
    if not copies:
        return np.zeros((0, len(COPY_FEATURES)), np.float32)
    rows = []
    for copy, move in zip(copies, moves, strict=True):
        rows += memory_features(*move), _around(chains, copy)
    return np.concatenate(rows).reshape(len(copies), -1)


def _around(chains: Chains, copy: CopySite | LayoutCopy) -> np.ndarray:
    """What is the same of all copies of a tensor for a reader, between whatever orders."""
    where, graph = (copy.tensor, copy.reader, copy.reason), chains.graph
    if where not in chains.around:
        features = [
            *_chain_work(chains, copy.tensor, copy.reader),
            *_one_hot(copy.reason, len(Reason)),
            *_one_hot(group_of(graph, copy.tensor), len(GROUPS)),
            *_one_hot(group_of(graph, copy.reader), len(GROUPS)),
        ]
        chains.around[where] = np.array(features, np.float32)
    return chains.around[where]


def off_layout_features(chains: Chains, node: int, order: Order, misfit: bool) -> list[float]:
    """``OFF_LAYOUT_FEATURES`` of an operation that works in an order.

    A configured layout that fits no tensor of its node is a kind of its own: it has no order, and
    other than every operation it is of no group.
    """
    graph = chains.graph
    return [
        *_operation_shape(graph, node, order, misfit),
        *_chain_work(chains, node, node),
        *([0.0] * len(GROUPS) if misfit else _one_hot(group_of(graph, node), len(GROUPS))),
    ]


def _operation_shape(graph: TensorGraph, node: int, order: Order, misfit: bool) -> OperationShape:
    shape = () if misfit else graph.shapes[node]
    actual = squeezed(order, shape)
    plain = squeezed(graph.plain[node], shape) if shape else ()
    return OperationShape(
        moves_data=0.0,
        is_off_layout=float(not misfit),
        fastest_size=logarithm(shape[actual[0]]) if actual else 0.0,
        plain_fastest_stride=logarithm(strides(order, shape)[plain[0]]) if actual else 0.0,
        bytes=log2(max(1.0, graph.bytes[node])) / BYTES_SCALE,
        rank=graph.rank(node) / RANK_SCALE,
    )


def _chain_work(chains: Chains, writer: int, reader: int) -> ChainWork:
    graph = chains.graph
    functions_before, operations_before = chains.above(writer)
    functions_after, operations_after = chains.below(reader)
    return ChainWork(
        functions_before=min(MOST_COUNTED, functions_before) / FUNCTIONS_SCALE,
        operations_before=logarithm(1 + operations_before),
        functions_after=min(MOST_COUNTED, functions_after) / FUNCTIONS_SCALE,
        operations_after=logarithm(1 + operations_after),
        writer_is_elementwise=float(is_elementwise(graph, writer)),
        reader_is_elementwise=float(is_elementwise(graph, reader)),
        users=min(MOST_COUNTED, len(graph.users[writer])) / FUNCTIONS_SCALE,
    )


def _one_hot(value: int, count: int) -> list[float]:
    vector = [0.0] * count
    vector[value] = 1.0
    return vector
