"""What depends on the processor that a program is compiled for.

Layouts of a CPU and of a TPU mean different things. A CPU reads memory in lines, its kernels want
operands in row-major form, and a copy always costs. A TPU keeps the two minor-most dimensions of a
tensor in tiles of 8 x 128 elements and fills them up, so that a short minor-most dimension wastes
memory, and a dimension of one element counts where it stands; which operand layouts its matrix unit
is best fed with is part of what is to be learned. (Tiles: https://openxla.org/xla/tiled_layout;
padding: https://cloud.google.com/tpu/docs/performance-guide.)
"""

from __future__ import annotations

from dataclasses import dataclass

from lib.compiler.orders import Order, Shape, squeezed

TILE = (128, 8)  # elements of a tile along the minor-most dimension, and along the next one


@dataclass(frozen=True, eq=False)
class Hardware:
    """A kind of processor.

    Attributes:
        name: what settings call it.
        wants_row_major: whether convolutions, dots and reductions bring their operands to a
            row-major form of their own, in which they also write.
        tiled: whether tensors lie in memory in padded tiles of their two minor-most dimensions.
        copies_cost: whether a layout copy never makes a program faster.
        names_parts: whether a configured layout may name some of a tensor's dimensions only.
        library_calls: whether operations are handed to a library several at a time.
    """

    name: str
    wants_row_major: bool
    tiled: bool
    copies_cost: bool
    names_parts: bool
    library_calls: bool

    def in_memory(self, order: Order, shape: Shape) -> tuple[Order, ...]:
        """What orders of a tensor have in common that put every element at the same place."""
        if not self.tiled:
            return (squeezed(order, shape),)
        tiles = len(TILE)
        return order[:tiles], squeezed(order[tiles:], shape)

    def same_in_memory(self, one: Order, other: Order, shape: Shape) -> bool:
        """Whether two orders of a tensor put every element at the same place."""
        return self.in_memory(one, shape) == self.in_memory(other, shape)


HARDWARE = {
    "cpu": Hardware(
        "cpu",
        wants_row_major=True,
        tiled=False,
        copies_cost=True,
        names_parts=False,
        library_calls=True,
    ),
    "tpu": Hardware(
        "tpu",
        wants_row_major=False,
        tiled=True,
        copies_cost=False,
        names_parts=True,
        library_calls=False,
    ),
}


def padding(order: Order, shape: Shape) -> float:
    """How many times a tensor's own elements the tiles hold that it lies in, at least 1."""
    factor = 1.0
    for dimension, size in zip(order, TILE, strict=False):
        if shape[dimension]:
            factor *= -(-shape[dimension] // size) * size / shape[dimension]
    return factor
