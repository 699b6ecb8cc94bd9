"""Orders of a tensor's dimensions, minor to major, and what they mean in memory."""

from __future__ import annotations

from collections.abc import Sequence

Order = tuple[int, ...]  # a permutation of the dimensions, the fastest varying first
Shape = Sequence[int]


def row_major(rank: int) -> Order:
    """Return the order in which the last dimension varies fastest."""
    return tuple(range(rank - 1, -1, -1))


def squeezed(order: Order, shape: Shape) -> Order:
    """Return the order without dimensions of one element: equal for layouts that are the same in
    memory."""
    return tuple(d for d in order if shape[d] > 1)


def strides(order: Order, shape: Shape) -> list[int]:
    """Return the distance in elements between neighbours along each dimension."""
    distances, distance = [0] * len(shape), 1
    for dimension in order:
        distances[dimension] = distance
        distance *= shape[dimension]
    return distances


def common_run(first: Order, second: Order, shape: Shape) -> int:
    """Return how many elements are contiguous in both of two squeezed orders."""
    run = 1
    for dimension, same in zip(first, second, strict=True):
        if dimension != same:
            break
        run *= shape[dimension]
    return run


def same_in_memory(first: Order, second: Order, shape: Shape) -> bool:
    """Return whether two orders of a tensor put every element at the same place."""
    return squeezed(first, shape) == squeezed(second, shape)
