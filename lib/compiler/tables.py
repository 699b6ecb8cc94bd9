"""What the batches of configurations of one program share: its facts, and tables that grow."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from lib.compiler.effects import LayoutCopy, OffLayoutOperation
from lib.compiler.facts import ProgramFacts
from lib.compiler.graph import TensorGraph
from lib.compiler.loops import Loops
from lib.compiler.orders import Order, squeezed

UNSET = -1  # no order: the configuration, or the operation, leaves it open

Item = TypeVar("Item", bound=Hashable)


@dataclass
class Numbering(Generic[Item]):
    """Things that are numbered in the order of their first appearance."""

    items: list[Item] = field(default_factory=list)
    numbers: dict[Item, int] = field(default_factory=dict)

    def number(self, item: Item) -> int:
        """The item's number, a new one if it is new."""
        if item not in self.numbers:
            self.numbers[item] = len(self.items)
            self.items.append(item)
        return self.numbers[item]


class OrderTable(Numbering[Order]):
    """Orders of one program's tensors, numbered so that arrays can hold them.

    Attributes:
        plain: (n,) the number of the order that each output has in the program as it stands.
    """

    def __init__(self, graph: TensorGraph):
        super().__init__()
        self._shapes = graph.shapes
        self._mapped: dict[tuple[str, int, int], int] = {}
        self._same: dict[tuple[int, int, int], bool] = {}
        self.plain = [self.number(order) for order in graph.plain]

    def numbers_of(self, digits: np.ndarray) -> np.ndarray:
        """Numbers of layouts as a configuration has them.

        Args:
            digits: (..., 6) integers, minor to major, -1 padded.

        Returns:
            (...) int64, ``UNSET`` where no digit is set or they are no permutation.
        """
        flat, places = np.unique(digits.reshape(-1, digits.shape[-1]), axis=0, return_inverse=True)
        numbers = []
        for layout in flat.tolist():
            order = tuple(d for d in layout if d >= 0)
            known = order and sorted(order) == list(range(len(order)))
            numbers.append(self.number(order) if known else UNSET)
        return np.array(numbers, np.int64)[places.reshape(digits.shape[:-1])]

    def mapped(self, how: str, node: int, number: int, map_order: Callable[[Order], Order]) -> int:
        """The number of ``map_order(order)``, remembered by (how, node, order)."""
        key = (how, node, number)
        if key not in self._mapped:
            self._mapped[key] = self.number(map_order(self.items[number]))
        return self._mapped[key]

    def same_in_memory(self, tensor: int, one: int, other: int) -> bool:
        """Whether two orders of a tensor put every element at the same place; remembered."""
        key = (tensor, one, other)
        if key not in self._same:
            shape = self._shapes[tensor]
            before, after = squeezed(self.items[one], shape), squeezed(self.items[other], shape)
            self._same[key] = before == after
        return self._same[key]


@dataclass(frozen=True, eq=False)
class ProgramTables:
    """A program's facts, and what is numbered as configurations of it are resolved."""

    facts: ProgramFacts
    orders: OrderTable
    loops: Loops
    copies: Numbering[LayoutCopy] = field(default_factory=Numbering)
    off_layout: Numbering[OffLayoutOperation] = field(default_factory=Numbering)

    @classmethod
    def of(cls, graph: TensorGraph) -> ProgramTables:
        """The facts of a program, and tables that hold its own orders."""
        facts = ProgramFacts.of(graph)
        return cls(facts, OrderTable(graph), Loops(facts))
