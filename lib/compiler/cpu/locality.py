"""How a walk through memory meets caches.

A tensor is brought from one order to another by a loop. XLA's for CPUs goes over the dimensions in
the program's own order, whatever the orders in which tensors lie: it reads in jumps what lies in
another, and writes in jumps what is to lie in another, which costs more: in a small ResNet 1.1 ns
an element against 0.6 (medians; `tests.bench.kernels`).
What jumps cost depends on where they land: on how many lines and pages, how many of them share
a set of the cache (sizes that are powers of two make many do), and how many are met before the
rest of a line is used. Copies that differ in nothing else were measured to cost 0.3 to 4 ns an
element.

The cache here is that of common processors: lines of 64 bytes, 8 ways, 64 sets in the first
level and 2,048 in the second, pages of 4 KiB of which 64 are remembered. What is learned from the
numbers is learned from measured runtimes, so they need not be those of the machine.
"""

from __future__ import annotations

from functools import lru_cache
from math import log2, prod
from typing import NamedTuple

import numpy as np

from lib.compiler.orders import Order, Shape, squeezed, strides

LINE, PAGE, WAYS, PAGES = 64, 4096, 8, 64
SETS = (64, 2048)  # of the first and the second level
MOST = 1 << 14  # places of a walk that are looked at; a longer one fits no cache
CONFLICT_SCALE, COUNT_SCALE = 3.0, 8.0


class Evicted(NamedTuple):
    """Shares of a walk's lines and pages that are gone when it comes again."""

    first_level: float
    second_level: float
    pages: float


class Footprint(NamedTuple):
    """Logarithms of a walk's lines in a set of the first level, of its lines and of its pages."""

    lines_in_a_set: float
    lines: float
    pages: float


LOCALITY_FEATURES = (
    "places",  # that are read before the rest of a line is used: the walk
    *(f"evicted_{name}" for name in Evicted._fields),  # by the walk
    *(f"fastest_{name}" for name in Footprint._fields),  # of a walk along its fastest dimension
    *(f"fastest_two_{name}" for name in Footprint._fields),
    *(f"walk_{name}" for name in Footprint._fields),
)

WALK_FEATURES = ("stride", "second_stride", "size", "second_size", *LOCALITY_FEATURES)


@lru_cache(maxsize=1 << 14)
def walk(shape: tuple[int, ...], order: Order, path: Order, width: int) -> tuple[float, ...]:
    """``WALK_FEATURES`` of a loop that goes over a tensor's dimensions; remembered.

    Args:
        shape: of the tensor.
        order: the order it lies in.
        path: the order that the loop goes over it in, the innermost dimension first.
        width: bytes of an element.
    """
    distance, lying, path = strides(order, shape), squeezed(order, shape), squeezed(path, shape)
    first, second = path[0], path[1] if len(path) > 1 else None
    return (
        log2(distance[first]) / COUNT_SCALE,
        log2(1 if second is None else distance[second]) / COUNT_SCALE,
        log2(shape[first]) / COUNT_SCALE,
        log2(1 if second is None else shape[second]) / COUNT_SCALE,
        *locality(shape, order, lying, path, width),
    )


def locality(shape: Shape, before: Order, lying: Order, read: Order, width: int) -> list[float]:
    """``LOCALITY_FEATURES`` of reading a tensor in another order than it lies in.

    Args:
        shape, before: of the tensor, and the order it lies in.
        lying, read: that order and the one it is read in, without dimensions of one element.
        width: bytes of an element.
    """
    distance = strides(before, shape)
    inner = read[: read.index(lying[0])]  # walked through before the rest of a line is used
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
    """A set that more lines fall into than it has ways keeps none of them, as the least recently
    used goes first."""
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


@lru_cache(maxsize=4)  # what is evicted and what is left behind are asked of the same walk
def _lines_and_pages(sizes: tuple[int, ...], jumps: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """The distinct lines of a walk, ascending, and how many pages they lie in.

    The largest jump goes first, so that places ascend: a jump along a dimension of a tensor is no
    shorter than all of the dimensions together that lie closer.
    """
    places = np.zeros(1, np.int64)
    for jump, size in sorted(zip(jumps, sizes, strict=True), reverse=True):
        places = (places[:, None] + np.arange(size) * jump).ravel()
    lines = _distinct(places // LINE)
    return lines, len(_distinct(lines // (PAGE // LINE)))


def _distinct(ascending: np.ndarray) -> np.ndarray:
    new = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    return ascending[new]
