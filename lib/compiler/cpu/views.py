"""Views of a tensor through transposes and reshapes.

A reshape splits dimensions and joins others, so a loop that reads through it iterates over parts of
dimensions. Split the dimensions at both ends into the coarsest common parts: then the tensor that
is read and the one that is written have two orders of the same parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lib.compiler.orders import Order, Shape

Parts = tuple[tuple[int, ...], ...]  # parts of each dimension, major to minor


@dataclass(frozen=True)
class View:
    """A tensor at the beginning of a path, and the node at its end, in common parts.

    Attributes:
        sizes: sizes of the parts.
        tensor, end: the parts of each dimension of the tensor, and of the node where the path ends.
    """

    sizes: tuple[int, ...]
    tensor: Parts
    end: Parts

    @classmethod
    def whole(cls, shape: Shape) -> View:
        """Return the view of a tensor through an empty path."""
        parts = tuple((d,) for d in range(len(shape)))
        return cls(tuple(shape), parts, parts)

    def transposed(self, permutation: Sequence[int]) -> View:
        """Return the view through a transpose before the path."""
        before: list[tuple[int, ...]] = [()] * len(permutation)
        for dimension, source in enumerate(permutation):
            before[source] = self.tensor[dimension]
        return View(self.sizes, tuple(before), self.end)

    def reshaped(self, shape: Shape) -> View | None:
        """Return the view through a reshape of a tensor of another shape before the path.

        ``None`` if sizes do not divide.
        """
        sizes = list(self.sizes)
        split: dict[int, tuple[int, ...]] = {}  # parts that were split in two or more
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

        def smallest(part: int) -> tuple[int, ...]:
            """Return the parts that a part was split into, over and over."""
            pieces = split.get(part)
            return (part,) if pieces is None else tuple(p for q in pieces for p in smallest(q))

        end = tuple(tuple(p for part in parts for p in smallest(part)) for parts in self.end)
        return View(tuple(sizes), tuple(before), end)._renumbered()

    def _renumbered(self) -> View:
        """Return the parts in the order of the end's dimensions, without those of one element."""
        large = [part for parts in self.end for part in parts if self.sizes[part] > 1]
        place = {part: number for number, part in enumerate(large)}
        tensor, end = (
            tuple(tuple(place[p] for p in parts if p in place) for parts in dimensions)
            for dimensions in (self.tensor, self.end)
        )
        return View(tuple(self.sizes[part] for part in large), tensor, end)

    def orders(self, tensor: Order, end: Order) -> tuple[Order, Order]:
        """Return the orders of the parts for an order of the tensor and one of the end."""
        return _order_of(self.tensor, tensor), _order_of(self.end, end)

    def end_order(self, end: Order) -> Order:
        """Return the order of the parts for an order of the end."""
        return _order_of(self.end, end)


def _order_of(dimensions: Parts, order: Order) -> Order:
    """Return an order of dimensions as one of their parts."""
    return tuple(part for d in order for part in reversed(dimensions[d]))
