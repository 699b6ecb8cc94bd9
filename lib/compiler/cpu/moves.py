"""Memory accesses of a layout copy, as numbers that a network can learn costs from.

They depend on sizes and orders alone, not on the program that the copy is in.

A loop brings a tensor from one order to another. XLA's loop on CPUs iterates over the dimensions in
the program's own order, whatever the two orders are. It reads with a stride if the tensor has
another order, and writes with a stride if the result has another one, which costs more: in a small
ResNet 1.1 ns an element against 0.6 (medians). The cost of strides depends
on how many cache lines and pages they touch, on how many of the lines share a set of the cache
(sizes that are powers of two make many do), and on how many lines come before the rest of a line is
used. Copies that differ in nothing else were measured to cost 0.3 to 4 ns an element.

The cache is assumed to be that of common processors: lines of 64 bytes, 8 ways, 64 sets in the
first level and 2,048 in the second, pages of 4 KiB, 64 of them in the TLB. Networks learn from
these numbers and measured runtimes, so the numbers need not be those of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import log2, prod
from typing import NamedTuple

import numpy as np

from lib.compiler.orders import Order, Shape, common_run, squeezed, strides

FEW = 8  # elements along a dimension: less than a vector register or a cache line holds
SCALE, BYTES_SCALE, RANK_SCALE = 8.0, 20.0, 4.0
CONFLICT_SCALE, COUNT_SCALE = 3.0, 8.0
LINE, PAGE, WAYS, PAGES = 64, 4096, 8, 64
SETS = (64, 2048)  # in the first and the second level
MOST = 1 << 14  # places of a walk that are simulated; a longer walk fits no cache


class MovedTensor(NamedTuple):
    """A tensor that is copied, by its dimensions or by parts of them."""

    shape: tuple[int, ...]
    plain: Order
    bytes: float


class CopyShape(NamedTuple):
    """Strides and sizes of a copy, without dimensions of one element."""

    read_stride: float  # distance before the copy of elements that are neighbours after it
    write_stride: float  # distance after the copy of elements that are neighbours before it
    fastest_size_after: float
    fastest_size_before: float
    common_run: float  # elements that are contiguous before and after
    bytes: float
    fastest_changes: float
    fastest_is_short_after: float
    fastest_is_short_before: float
    before_is_plain: float
    after_is_plain: float
    dimensions: float
    second_size_after: float
    second_read_stride: float


class Evicted(NamedTuple):
    """Shares of a walk's lines and pages that are evicted before it comes to them again."""

    first_level: float
    second_level: float
    pages: float


class Footprint(NamedTuple):
    """Logarithms of a walk's lines in a set of the first level, of its lines and of its pages."""

    lines_in_a_set: float
    lines: float
    pages: float


def named(group: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of a group's features."""
    return tuple(f"{group}.{name}" for name in names)


LOCALITY_FEATURES = (
    "places",  # places of the walk: those read before the rest of a line is used
    *(f"evicted_{name}" for name in Evicted._fields),  # by the walk
    *(f"fastest_{name}" for name in Footprint._fields),  # of a walk along its fastest dimension
    *(f"fastest_two_{name}" for name in Footprint._fields),
    *(f"walk_{name}" for name in Footprint._fields),
)
WALK_FEATURES = ("stride", "second_stride", "size", "second_size", *LOCALITY_FEATURES)
MEMORY_FEATURES = (
    *named("copy", CopyShape._fields),
    *named("cache", LOCALITY_FEATURES),
    *named("reading", WALK_FEATURES),
    *named("writing", WALK_FEATURES),
)


@lru_cache(maxsize=1 << 16)
def memory_features(moved: MovedTensor, before: Order, after: Order) -> np.ndarray:
    """Return ``MEMORY_FEATURES`` of a copy, a read-only (width,) float32 row.

    Rows are cached, as programs repeat their layers, and configurations their layouts.
    """
    shape = moved.shape
    old, new = squeezed(before, shape), squeezed(after, shape)
    plain = tuple(d for d in moved.plain if d in old)
    read, written = strides(before, shape), strides(after, shape)
    second = new[1] if len(new) > 1 else None
    copy = CopyShape(
        read_stride=logarithm(read[new[0]]),
        write_stride=logarithm(written[old[0]]),
        fastest_size_after=logarithm(shape[new[0]]),
        fastest_size_before=logarithm(shape[old[0]]),
        common_run=logarithm(common_run(old, new, shape)),
        bytes=log2(max(1.0, moved.bytes)) / BYTES_SCALE,
        fastest_changes=float(old[0] != new[0]),
        fastest_is_short_after=float(shape[new[0]] < FEW),
        fastest_is_short_before=float(shape[old[0]] < FEW),
        before_is_plain=float(old == plain),
        after_is_plain=float(new == plain),
        dimensions=len(new) / RANK_SCALE,
        second_size_after=logarithm(1 if second is None else shape[second]),
        second_read_stride=logarithm(1 if second is None else read[second]),
    )
    width = max(1, int(moved.bytes // prod(shape)))
    locations = (
        *locality(shape, before, old, new, width),
        *walk(shape, before, moved.plain, width),
        *walk(shape, after, moved.plain, width),
    )
    features = np.array((*copy, *locations), np.float32)
    features.flags.writeable = False
    return features


def logarithm(count: int) -> float:
    """Return the logarithm of a count to base 2, scaled to be around 1."""
    return log2(max(1, count)) / SCALE


@lru_cache(maxsize=1 << 14)
def walk(shape: tuple[int, ...], order: Order, path: Order, width: int) -> tuple[float, ...]:
    """Return ``WALK_FEATURES`` of a loop over a tensor's dimensions.

    Args:
        shape: the shape of the tensor.
        order: the order of the tensor in memory.
        path: the dimensions that the loop iterates over, the innermost one first.
        width: bytes of an element.
    """
    distance, stored, path = strides(order, shape), squeezed(order, shape), squeezed(path, shape)
    first, second = path[0], path[1] if len(path) > 1 else None
    return (
        log2(distance[first]) / COUNT_SCALE,
        log2(1 if second is None else distance[second]) / COUNT_SCALE,
        log2(shape[first]) / COUNT_SCALE,
        log2(1 if second is None else shape[second]) / COUNT_SCALE,
        *locality(shape, order, stored, path, width),
    )


def locality(shape: Shape, before: Order, stored: Order, read: Order, width: int) -> list[float]:
    """Return ``LOCALITY_FEATURES`` of reading a tensor in another order than its own in memory.

    Args:
        shape, before: the shape of the tensor, and its order in memory.
        stored, read: that order and the one it is read in, without dimensions of one element.
        width: bytes of an element.
    """
    distance = strides(before, shape)
    inner = read[: read.index(stored[0])]  # the walk before the rest of a line is used
    walk, fastest, fastest_two = (
        (tuple(shape[d] for d in dimensions), tuple(distance[d] * width for d in dimensions))
        for dimensions in (inner, inner[:1], inner[:2] if len(inner) > 1 else ())
    )
    return [
        log2(prod(walk[0])) / COUNT_SCALE,
        *_evicted(*walk),
        *_footprint(*fastest),
        *_footprint(*fastest_two),
        *_footprint(*walk),
    ]


@lru_cache(maxsize=1 << 14)
def _evicted(sizes: tuple[int, ...], jumps: tuple[int, ...]) -> Evicted:
    """Return the evicted shares of a walk, if the least recently used line goes first.

    A set with more lines than ways then keeps none of them.
    """
    if not sizes:
        return Evicted(0.0, 0.0, 0.0)
    if prod(sizes) > MOST:
        return Evicted(1.0, 1.0, 1.0)
    lines, pages = _lines_and_pages(sizes, jumps)
    counts = [np.bincount(lines % sets, minlength=sets) for sets in SETS]
    gone = [float(count[count > WAYS].sum() / len(lines)) for count in counts]
    return Evicted(gone[0], gone[1], max(0, pages - PAGES) / pages)


@lru_cache(maxsize=1 << 14)
def _footprint(sizes: tuple[int, ...], jumps: tuple[int, ...]) -> Footprint:
    """Return the footprint of a walk."""
    if not sizes:
        return Footprint(0.0, 0.0, 0.0)
    if prod(sizes) > MOST:
        return Footprint(1.0, log2(MOST) / COUNT_SCALE, 1.0)
    lines, pages = _lines_and_pages(sizes, jumps)
    sets = np.count_nonzero(np.bincount(lines % SETS[0]))
    return Footprint(
        lines_in_a_set=log2(len(lines) / sets) / CONFLICT_SCALE,
        lines=log2(len(lines)) / COUNT_SCALE,
        pages=log2(pages) / COUNT_SCALE,
    )


@lru_cache(maxsize=4)  # both functions above need it for the same walk
def _lines_and_pages(sizes: tuple[int, ...], jumps: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """Return the distinct lines of a walk, ascending, and the number of their pages.

    The largest jump goes first, so that places ascend: a jump along a dimension of a tensor is at
    least as long as all faster dimensions together.
    """
    places = np.zeros(1, np.int64)
    for jump, size in sorted(zip(jumps, sizes, strict=True), reverse=True):
        places = (places[:, None] + np.arange(size) * jump).ravel()
    lines = _distinct(places // LINE)
    return lines, len(_distinct(lines // (PAGE // LINE)))


def _distinct(ascending: np.ndarray) -> np.ndarray:
    """Return the distinct values of an ascending array, faster than ``np.unique``."""
    new = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    return ascending[new]
