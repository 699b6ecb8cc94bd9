"""A tensor as it is seen through transposes and reshapes.

A reshape splits dimensions and joins others, so that a loop that reads through it goes over parts
of dimensions. In the coarsest parts that the dimensions of both ends are products of, the tensor
that is read and the one that is written are two orders of the same parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lib.compiler.orders import Order, Shape

Parts = tuple[tuple[int, ...], ...]  # of each dimension its parts, major to minor


@dataclass(frozen=True)
class View:
    """A tensor as the end of a path sees it.

    Attributes:
        sizes: of the parts.
        tensor, end: the parts of each dimension of the tensor, and of the node where the path ends.
    """

    sizes: tuple[int, ...]
    tensor: Parts
    end: Parts

    @classmethod
    def whole(cls, shape: Shape) -> View:
        """Of a tensor by itself."""
        parts = tuple((d,) for d in range(len(shape)))
        return cls(tuple(shape), parts, parts)

    def transposed(self, permutation: Sequence[int]) -> View:
        """What is seen through a transpose before the path."""
        before: list[tuple[int, ...]] = [()] * len(permutation)
        for dimension, source in enumerate(permutation):
            before[source] = self.tensor[dimension]
        return View(self.sizes, tuple(before), self.end)

    def reshaped(self, shape: Shape) -> View | None:
        """What is seen through a reshape before the path, from a tensor of another shape.

        ``None`` if sizes do not divide.
        """
        sizes = list(self.sizes)
        split: dict[int, tuple[int, ...]] = {}  # parts that had to be split in two or more
        waiting = [part for parts in self.tensor for part in parts][::-1]  # the major one last
        before: list[tuple[int, ...]] = []
        for size in shape:
            parts, left = [], size
            while left > 1:
                if not waiting:
                    return None
                part = waiting.pop()
                if sizes[part] == 1:
                    continue
                if left % sizes[part] == 0:
                    parts.append(part)
                    left //= sizes[part]
                elif sizes[part] % left == 0:
                    sizes += [left, sizes[part] // left]
                    major, minor = len(sizes) - 2, len(sizes) - 1
                    split[part] = (major, minor)
                    parts.append(major)
                    waiting.append(minor)
                    left = 1
                else:
                    return None
            before.append(tuple(parts))
        if any(sizes[part] > 1 for part in waiting):
            return None
        return View(tuple(sizes), tuple(before), _with(self.end, split))._renumbered()

    def orders(self, lies: Order, written: Order) -> tuple[Order, Order]:
        """Orders of the parts: in which the tensor lies, and in which the end is written."""
        return _order_of(self.tensor, lies), self.end_order(written)

    def end_order(self, written: Order) -> Order:
        """An order of the end's dimensions as one of the parts."""
        return _order_of(self.end, written)

    def _renumbered(self) -> View:
        """The parts in the order of the end's dimensions, without those of one element."""
        large = [part for parts in self.end for part in parts if self.sizes[part] > 1]
        place = {part: number for number, part in enumerate(large)}

        def numbered(dimensions: Parts) -> Parts:
            return tuple(tuple(place[p] for p in parts if p in place) for parts in dimensions)

        sizes = tuple(self.sizes[part] for part in large)
        return View(sizes, numbered(self.tensor), numbered(self.end))


def _with(dimensions: Parts, split: dict[int, tuple[int, ...]]) -> Parts:
    """The parts of each dimension, those that were split replaced by their own."""

    def parts_of(part: int) -> tuple[int, ...]:
        if part not in split:
            return (part,)
        return tuple(smallest for piece in split[part] for smallest in parts_of(piece))

    return tuple(tuple(smallest for p in parts for smallest in parts_of(p)) for parts in dimensions)


def _order_of(dimensions: Parts, order: Order) -> Order:
    return tuple(part for d in order for part in reversed(dimensions[d]))
