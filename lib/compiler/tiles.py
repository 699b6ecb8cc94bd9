"""How a tensor lies in the tiles of a TPU's memory, as numbers.

The two minor-most dimensions of a layout are cut into tiles (:data:`lib.compiler.hardware.TILE`)
that are filled up with nothing where a dimension ends early. What a layout wastes, and whether a
copy has to take tiles apart, depends on these two dimensions alone.
"""

from __future__ import annotations

from math import log2
from typing import NamedTuple

from lib.compiler.hardware import TILE, padding
from lib.compiler.orders import Order, Shape

SCALE = 8.0


class TileShape(NamedTuple):
    """The two minor-most dimensions of a layout: sizes, and memory over elements, as logarithms."""

    minor_size: float
    second_size: float
    minor_padding: float
    padding: float


def tile_shape(order: Order, shape: Shape) -> TileShape:
    """How a tensor lies in tiles; zeros for a tensor without dimensions."""
    sizes = [shape[dimension] for dimension in order[: len(TILE)]]
    minor, second = (*sizes, 1, 1)[:2]
    return TileShape(
        minor_size=log2(max(1, minor)) / SCALE,
        second_size=log2(max(1, second)) / SCALE,
        minor_padding=log2(padding(order[:1], shape)) / SCALE,
        padding=log2(padding(order, shape)) / SCALE,
    )


class TileChange(NamedTuple):
    """What a copy does to tiles."""

    kept: float  # both dimensions of a tile stay where they are: whole tiles move
    turned: float  # they change places
    minor_stays: float


def tile_change(before: Order, after: Order) -> TileChange:
    """What a copy from one order to another does to tiles."""
    one, other = before[: len(TILE)], after[: len(TILE)]
    return TileChange(
        kept=float(one == other),
        turned=float(one != other and one == other[::-1]),
        minor_stays=float(one[:1] == other[:1]),
    )
