"""What a layout copy does to memory, as numbers that a network can learn costs from.

It is a matter of sizes and orders alone: wherever in whatever program a tensor is copied so.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import log2, prod
from typing import NamedTuple

import numpy as np

from lib.compiler.cpu.locality import LOCALITY_FEATURES, WALK_FEATURES, locality, walk
from lib.compiler.cpu.nodes import BYTES_SCALE, RANK_SCALE
from lib.compiler.orders import Order, common_run, squeezed, strides

FEW = 8  # elements along a dimension: less than a vector register or a cache line holds
SCALE = 8.0


class MovedTensor(NamedTuple):
    """All that counts of a tensor itself where it is copied: of its dimensions, or their parts."""

    shape: tuple[int, ...]
    plain: Order
    bytes: float


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


def named(group: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names of a group's features."""
    return tuple(f"{group}.{name}" for name in names)


MEMORY_FEATURES = (
    *named("copy", CopyShape._fields),
    *named("cache", LOCALITY_FEATURES),
    *named("reading", WALK_FEATURES),
    *named("writing", WALK_FEATURES),
)


@lru_cache(maxsize=1 << 16)
def memory_features(moved: MovedTensor, before: Order, after: Order) -> np.ndarray:
    """``MEMORY_FEATURES`` of a copy: its shape, and the lines and pages that it meets.

    A (width,) float32 row. It is remembered, as programs repeat their layers, and configurations
    their layouts; so it is not to be written to.
    """
    shape = moved.shape
    old, new = squeezed(before, shape), squeezed(after, shape)
    width = max(1, int(moved.bytes // prod(shape)))
    met = (
        *locality(shape, before, old, new, width),
        *walk(shape, before, moved.plain, width),
        *walk(shape, after, moved.plain, width),
    )
    features = np.array((*_copy_shape(moved, before, after, old, new), *met), np.float32)
    features.flags.writeable = False
    return features


def _copy_shape(
    moved: MovedTensor, before: Order, after: Order, old: Order, new: Order
) -> CopyShape:
    """``old`` and ``new`` are the orders before and after, without what does not count."""
    shape = moved.shape
    plain = tuple(d for d in moved.plain if d in old)
    read, written = strides(before, shape), strides(after, shape)
    second = new[1] if len(new) > 1 else None
    return CopyShape(
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


def logarithm(count: int) -> float:
    """Of a count to base 2, to lie around 1."""
    return log2(max(1, count)) / SCALE
