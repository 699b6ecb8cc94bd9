"""Layout copies and off-layout operations as numbers that a network can learn costs from.

What a copy costs depends on how far apart in memory the elements are that are read one after the
other, on how long runs stay together, on sizes, on what the caches make of it
(:mod:`lib.compiler.locality`) and on what is computed on the way (:mod:`lib.compiler.chains`); not
on the names of dimensions. So the features say that, as logarithms to base 2 (divided, to lie
around 1), and the same program with its dimensions renamed has the same features.

``COPY_FEATURES`` and ``OFF_LAYOUT_FEATURES`` name them in their order, for each kind of hardware;
what is before a name's first dot is the group that it belongs to. For TPUs, tiles
(:mod:`lib.compiler.tiles`) take the place of caches, and configured layouts count by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import log2, prod
from typing import NamedTuple

from lib.compiler.chains import Chains
from lib.compiler.effects import Reason
from lib.compiler.graph import TensorGraph
from lib.compiler.hardware import Hardware
from lib.compiler.locality import LOCALITY_FEATURES, WALK_FEATURES, locality, walk
from lib.compiler.nodes import (
    BYTES_SCALE,
    FUNCTIONS_SCALE,
    GROUPS,
    MOST_COUNTED,
    RANK_SCALE,
    group_of,
)
from lib.compiler.operands import ROLES
from lib.compiler.orders import Order, common_run, squeezed, strides
from lib.compiler.tiles import TileChange, TileShape, tile_change, tile_shape

FEW = 8  # elements along a dimension: less than a vector register or a cache line holds
SCALE = 8.0


class MovedTensor(NamedTuple):
    """All that counts of a tensor itself where it is copied: of its dimensions, or their parts."""

    shape: tuple[int, ...]
    plain: Order
    bytes: float


class ResolvedCopy(NamedTuple):
    """A :class:`lib.compiler.effects.LayoutCopy` with its orders, and what these are of."""

    tensor: int
    before: Order
    after: Order
    reason: Reason
    reader: int
    moved: MovedTensor | None = None  # the tensor itself


class ResolvedOperation(NamedTuple):
    """An :class:`lib.compiler.effects.OffLayoutOperation` with its orders themselves.

    ``tensor`` is the node whose output the order is about: of a configured layout the tensor that
    it constrains, else the operation's own.
    """

    node: int
    before: Order
    order: Order
    role: int
    tensor: int


class CopyShape(NamedTuple):
    """What a copy does to memory. Dimensions of one element are passed over."""

    read_stride: float  # how far apart the elements are that are written in a row
    write_stride: float  # how far apart those go that lie in a row
    fastest_size_after: float
    fastest_size_before: float
    common_run: float  # elements that lie in a row before and after
    bytes: float
    fastest_changes: float
    fastest_is_short_after: float
    fastest_is_short_before: float
    before_is_plain: float
    after_is_plain: float
    dimensions: float
    second_size_after: float
    second_read_stride: float


class OperationShape(NamedTuple):
    """What an operation that works in another order does to memory."""

    moves_data: float  # a reshape that is no mere renaming of dimensions
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


def _named(group: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{group}.{name}" for name in names)


TILES = (
    *_named("tile_before", TileShape._fields),
    *_named("tile_after", TileShape._fields),
    *_named("tile_change", TileChange._fields),
)


def _copy_names(memory: Iterable[str]) -> tuple[str, ...]:
    return (
        *_named("copy", CopyShape._fields),
        *memory,
        *_named("chain", ChainWork._fields),
        *_named("reason", (reason.name.lower() for reason in Reason)),
        *_named("writer", GROUPS),
        *_named("reader", GROUPS),
    )


COPY_FEATURES = {
    "cpu": _copy_names(
        (
            *_named("cache", LOCALITY_FEATURES),
            *_named("reading", WALK_FEATURES),
            *_named("writing", WALK_FEATURES),
        )
    ),
    "tpu": _copy_names(TILES),
}
OF_OPERATIONS = (
    *_named("operation", OperationShape._fields),
    *_named("chain", ChainWork._fields),
    *_named("opcode", GROUPS),
)
OFF_LAYOUT_FEATURES = {
    "cpu": OF_OPERATIONS,
    "tpu": (*OF_OPERATIONS, *_named("tile", TileShape._fields), *_named("configured", ROLES)),
}


def copy_features(chains: Chains, hardware: Hardware, copy: ResolvedCopy) -> list[float]:
    """``COPY_FEATURES`` of a layout copy.

    Args:
        chains: of the program that it happens in.
        hardware: that the program is compiled for.
        copy: the copy, between orders that differ in memory.
    """
    graph, tensor = chains.graph, copy.tensor
    moved = copy.moved or MovedTensor(
        graph.shapes[tensor], graph.plain[tensor], float(graph.bytes[tensor])
    )
    where = (tensor, copy.reader, copy.reason)
    if where not in chains.around:  # of all orders that a tensor is copied to
        chains.around[where] = [
            *_chain_work(chains, tensor, copy.reader),
            *_one_hot(copy.reason, len(Reason)),
            *_one_hot(group_of(graph, tensor), len(GROUPS)),
            *_one_hot(group_of(graph, copy.reader), len(GROUPS)),
        ]
    return [*memory_features(moved, hardware, copy.before, copy.after), *chains.around[where]]


def off_layout_features(
    chains: Chains, hardware: Hardware, operation: ResolvedOperation
) -> list[float]:
    """``OFF_LAYOUT_FEATURES`` of an operation or a configured layout.

    A layout that fits no tensor of its node is a kind of its own: it has no order, and other than
    every operation it is of no group.

    Args:
        chains: of the program that it happens in.
        hardware: that the program is compiled for.
        operation: the operation.
    """
    node, graph = operation.node, chains.graph
    misfit = operation.role >= 0 and not operation.order
    features = [
        *_operation_shape(graph, operation),
        *_chain_work(chains, node, node),
        *([0.0] * len(GROUPS) if misfit else _one_hot(group_of(graph, node), len(GROUPS))),
    ]
    if hardware.tiled:
        features += tile_shape(operation.order, graph.shapes[operation.tensor])
        features += _one_hot(operation.role, len(ROLES)) if operation.role >= 0 else [0.0] * 3
    return features


@lru_cache(maxsize=1 << 16)
def memory_features(
    moved: MovedTensor, hardware: Hardware, before: Order, after: Order
) -> tuple[float, ...]:
    """What a copy does to memory, and what it meets there: tiles, or lines and pages.

    It is remembered: programs repeat their layers, and configurations their layouts.
    """
    shape, one, other = moved.shape, before, after
    if hardware.tiled:
        tiles = (*tile_shape(before, shape), *tile_shape(after, shape))
        met = (*tiles, *tile_change(before, after))
    else:
        one, other = squeezed(before, shape), squeezed(after, shape)
        width = max(1, int(moved.bytes // prod(shape)))
        met = (
            *locality(shape, before, one, other, width),
            *walk(shape, before, moved.plain, width),
            *walk(shape, after, moved.plain, width),
        )
    return *_copy_shape(moved, before, after, one, other), *met


def _copy_shape(
    moved: MovedTensor, before: Order, after: Order, one: Order, other: Order
) -> CopyShape:
    """``one`` and ``other`` are the orders before and after, without what does not count."""
    shape = moved.shape
    plain = tuple(d for d in moved.plain if d in one)
    read, written = strides(before, shape), strides(after, shape)
    second = other[1] if len(other) > 1 else None
    return CopyShape(
        read_stride=_log(read[other[0]]),
        write_stride=_log(written[one[0]]),
        fastest_size_after=_log(shape[other[0]]),
        fastest_size_before=_log(shape[one[0]]),
        common_run=_log(common_run(one, other, shape)),
        bytes=log2(max(1.0, moved.bytes)) / BYTES_SCALE,
        fastest_changes=float(one[0] != other[0]),
        fastest_is_short_after=float(shape[other[0]] < FEW),
        fastest_is_short_before=float(shape[one[0]] < FEW),
        before_is_plain=float(one == plain),
        after_is_plain=float(other == plain),
        dimensions=len(other) / RANK_SCALE,
        second_size_after=_log(1 if second is None else shape[second]),
        second_read_stride=_log(1 if second is None else read[second]),
    )


def _operation_shape(graph: TensorGraph, operation: ResolvedOperation) -> OperationShape:
    node, tensor, order = operation.node, operation.tensor, operation.order
    misfit = not order and operation.role >= 0
    moves_data = not order and not misfit
    if moves_data:
        tensor, order = graph.operands[node][0], operation.before
    shape = () if misfit else graph.shapes[tensor]
    own = squeezed(order, shape)
    plain = squeezed(graph.plain[tensor], shape) if shape else ()
    return OperationShape(
        moves_data=float(moves_data),
        is_off_layout=float(own != plain) if moves_data or operation.role >= 0 else 1.0,
        fastest_size=_log(shape[own[0]]) if own else 0.0,
        plain_fastest_stride=_log(strides(order, shape)[plain[0]]) if own else 0.0,
        bytes=log2(max(1.0, graph.bytes[node])) / BYTES_SCALE,
        rank=graph.rank(node) / RANK_SCALE,
    )


def _chain_work(chains: Chains, writer: int, reader: int) -> ChainWork:
    functions_before, operations_before = chains.above(writer)
    functions_after, operations_after = chains.below(reader)
    return ChainWork(
        functions_before=min(MOST_COUNTED, functions_before) / FUNCTIONS_SCALE,
        operations_before=_log(1 + operations_before),
        functions_after=min(MOST_COUNTED, functions_after) / FUNCTIONS_SCALE,
        operations_after=_log(1 + operations_after),
        writer_is_elementwise=float(chains.elementwise(writer)),
        reader_is_elementwise=float(chains.elementwise(reader)),
        users=min(MOST_COUNTED, len(chains.graph.users[writer])) / FUNCTIONS_SCALE,
    )


def _log(count: int) -> float:
    return log2(max(1, count)) / SCALE


def _one_hot(value: int, count: int) -> list[float]:
    vector = [0.0] * count
    vector[value] = 1.0
    return vector
