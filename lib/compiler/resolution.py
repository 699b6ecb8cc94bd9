"""One batch of configurations: the orders of its tensors, and what they make a compiler do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic

import numpy as np

from lib.compiler.effects import Effects, LayoutCopy, OffLayoutOperation, Reason
from lib.compiler.orders import Order
from lib.compiler.tables import MISFIT, UNSET, Item, Numbering, ProgramTables

BASE = 1 << 32  # more than there are orders, so that two of their numbers make one


class Occurrences(Generic[Item]):
    """Which of a batch's configurations have which of some numbered things."""

    def __init__(self, numbering: Numbering[Item], configurations: int):
        self._numbering, self._configurations = numbering, configurations
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(
        self,
        where: np.ndarray,
        before: np.ndarray,
        after: np.ndarray,
        make: Callable[[int, int], Item | None],
    ) -> None:
        """Note ``make(before, after)``, if it is anything, for the configurations ``where``.

        Args:
            where, before, after: (b,), or (1,) if they are the same under all; orders are not
                ``UNSET`` where ``where`` is true.
            make: from two orders.
        """
        if not where.any():
            return
        keys = np.where(where, before * BASE + after, UNSET)
        distinct, places = _distinct(keys)
        numbers = np.full(len(distinct), UNSET)
        for index, key in enumerate(distinct.tolist()):
            if key != UNSET and (item := make(*divmod(key, BASE))) is not None:
                numbers[index] = self._numbering.number(item)
        each = np.broadcast_to(numbers[places], self._configurations)
        noted = np.flatnonzero(each != UNSET)
        self._parts.append((noted, each[noted]))

    def all(self) -> np.ndarray:
        """(m, 2) int64 pairs [configuration, number]."""
        if not self._parts:
            return np.zeros((0, 2), np.int64)
        return np.stack([np.concatenate(side) for side in zip(*self._parts, strict=True)], axis=1)


def _distinct(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ones of (b or 1,) numbers, and of each its place among them."""
    if len(numbers) == 1:
        return numbers, np.zeros(1, np.int64)
    return np.unique(numbers, return_inverse=True)


class Resolution(ABC):
    """What is common to the ways in which the layouts of b configurations take effect.

    Orders are numbers in ``orders``. A node's order under b configurations is a (b,) array, or a
    (1,) array if it is the same under all.

    Attributes:
        layouts: (b, k, 3) as configured, ``UNSET`` also where the tensor has another rank.
        order: of each node's output; ``None`` where it is not known yet, or there is none.
    """

    def __init__(self, tables: ProgramTables, layouts: np.ndarray):
        self.facts, self.orders, self.loops = tables.facts, tables.orders, tables.loops
        self.calls, self.numbered = tables.calls, tables.repeated
        self.graph, self.count = tables.facts.graph, len(layouts)
        completed = tables.completion(layouts)
        self.layouts, self._misfits = np.maximum(completed, UNSET), completed == MISFIT
        self._plain_orders = np.array(self.orders.plain)
        self.order: list[np.ndarray | None] = [None] * len(self.graph.opcode)
        self._copies = Occurrences(tables.copies, self.count)
        self._off_layout = Occurrences(tables.off_layout, self.count)

    def effects(self) -> Effects:
        """What the configurations make a compiler do."""
        self.visit()
        self._note_configured()
        return Effects(self._copies.all(), self._off_layout.all(), self._repeated())

    @abstractmethod
    def visit(self) -> None:
        """Give every node's output its order, noting copies and off-layout operations."""

    def _repeated(self) -> np.ndarray:
        """Pairs [configuration, number of a repeated operation], where there are library calls."""
        if not self.facts.hardware.library_calls:
            return np.zeros((0, 2), np.int64)
        pairs = [
            (configuration, self.numbered.number(one))
            for configuration, operations in self.calls.repeated(self.layouts)
            for one in operations
        ]
        return np.array(pairs, np.int64).reshape(-1, 2)

    def _note_configured(self) -> None:
        """Note configured layouts that count by themselves.

        A layout that fits no tensor always does: nothing else is known of it. On hardware without
        wishes of its own every layout does, for the node works in it.
        """
        noted = self._misfits
        if not self.facts.hardware.wants_row_major:
            noted = noted | (self.layouts >= 0)
        none = self.orders.number(())
        for place, role in np.argwhere(noted.any(axis=0)).tolist():  # few, and of CPUs next to none
            node = int(self.graph.configurable[place])
            order = np.where(self._misfits[:, place, role], none, self.layouts[:, place, role])

            def layout(one: int, other: int, n=node, r=role) -> OffLayoutOperation:
                return OffLayoutOperation(n, one, other, r)

            self._off_layout.add(noted[:, place, role], order, order, layout)

    def _plain(self, node: int) -> np.ndarray:
        """The order of a node's output in the program as it stands, (1,)."""
        return self._plain_orders[node : node + 1]

    def _read(self, node: int, role: int) -> np.ndarray | None:
        """The order in which a configurable node is given an operand: as configured, else as it
        lies; ``None`` if there is no such operand, or it has no order."""
        place = self.facts.place[node]
        tensor = self.facts.constrained[place].tensors[role]
        if tensor < 0 or self.order[tensor] is None:
            return None
        configured = self.layouts[:, place, role]
        read = np.where(configured >= 0, configured, self.order[tensor])
        self._copy(tensor, self.order[tensor], read, Reason.CONFIGURED, node)
        return read

    def _after_transpose(self, node: int, read: np.ndarray) -> np.ndarray:
        """The order of a transpose's output if nothing moves, from that of its operand."""
        permutation = self.facts.transposes[node]

        def renamed(order: Order) -> Order:
            return tuple(permutation.index(d) for d in order)

        return self._each(read, lambda one: self.orders.mapped("after", node, one, renamed))

    @staticmethod
    def _each(numbers: np.ndarray, map_number: Callable[[int], int]) -> np.ndarray:
        """``map_number`` of each number, ``UNSET`` staying ``UNSET``."""
        distinct, places = _distinct(numbers)
        return np.array([UNSET if n < 0 else map_number(int(n)) for n in distinct])[places]

    def _copy(
        self, tensor: int, before: np.ndarray, after: np.ndarray, reason: Reason, reader: int
    ) -> None:
        """Note a copy of a tensor for a reader, for the configurations whose orders differ."""

        def copy(one: int, other: int) -> LayoutCopy | None:
            if self.orders.same_in_memory(tensor, one, other):
                return None
            return LayoutCopy(tensor, one, other, reason, reader)

        self._copies.add(before != after, before, after, copy)

    def _works_in(self, node: int, order: np.ndarray) -> None:
        """Note an operation that works in another order than the program's own."""
        plain = self.orders.plain[node]

        def operation(one: int, other: int) -> OffLayoutOperation | None:
            if self.orders.same_in_memory(node, other, plain):
                return None
            return OffLayoutOperation(node, one, other)

        self._off_layout.add(order != plain, order, order, operation)
