"""Orders of a tensor's dimensions, minor to major, and what they mean in memory."""

from __future__ import annotations

from collections.abc import Sequence

Order = tuple[int, ...]  # a permutation of the dimensions, the fastest varying first
Shape = Sequence[int]


def row_major(rank: int) -> Order:
    """The order in which the last dimension varies fastest."""
    return tuple(range(rank - 1, -1, -1))


def squeezed(order: Order, shape: Shape) -> Order:
    """The order without dimensions of one element: equal for layouts that are alike in memory."""
    return tuple(d for d in order if shape[d] > 1)


def squeezed_shape(shape: Shape) -> list[int]:
    """The sizes other than one."""
    return [size for size in shape if size > 1]


def strides(order: Order, shape: Shape) -> list[int]:
    """Distance in elements between neighbours along each dimension."""
    distances, distance = [0] * len(shape), 1
    for dimension in order:
        distances[dimension] = distance
        distance *= shape[dimension]
    return distances


def common_run(one: Order, other: Order, shape: Shape) -> int:
    """How many elements lie in a row in both orders (squeezed ones)."""
    run = 1
    for dimension, same in zip(one, other, strict=True):
        if dimension != same:
            break
        run *= shape[dimension]
    return run


def bitcast_order(order: Order, shape: Shape, to: Shape) -> Order | None:
    """The order in which a reshape of a tensor leaves every element where it is.

    Args:
        order: of the tensor before.
        shape, to: before and after the reshape, with equally many elements.

    Returns:
        The order after the reshape; ``None`` if there is none, so that data must move.
    """
    parts = _common_parts(shape, to)
    if parts is None:
        return None
    before = strides(order, shape)
    smallest: dict[int, int] = {}
    for _, (source, below), (target, _) in parts:
        step = before[source] * below
        smallest[target] = min(smallest.get(target, step), step)
    result = tuple(sorted(range(len(to)), key=lambda d: (smallest.get(d, 0), -d)))
    after = strides(result, to)
    same = all(before[a] * i == after[b] * j for _, (a, i), (b, j) in parts)
    return result if same else None


def _common_parts(
    shape: Shape, to: Shape
) -> list[tuple[int, tuple[int, int], tuple[int, int]]] | None:
    """The coarsest dimensions that those of both shapes are products of, the last one first.

    Returns:
        For each part its size, and for either shape the dimension that it is in and how many
        elements of that dimension lie below it; ``None`` if sizes do not divide.
    """
    parts = []
    sizes = [list(shape), list(to)]  # what is left of each dimension
    places = [len(shape) - 1, len(to) - 1]
    below = [1, 1]
    while True:
        for side in (0, 1):
            while places[side] >= 0 and sizes[side][places[side]] == 1:
                places[side], below[side] = places[side] - 1, 1
        if min(places) < 0:
            return parts
        left = [sizes[side][places[side]] for side in (0, 1)]
        size = min(left)
        if max(left) % size:
            return None
        parts.append((size, (places[0], below[0]), (places[1], below[1])))
        for side in (0, 1):
            sizes[side][places[side]] //= size
            below[side] *= size
