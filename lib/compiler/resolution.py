"""One batch of configurations: the orders of its tensors, and what they make a compiler do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from lib.compiler.effects import CopySite, Effects, OperationSite, Reason
from lib.compiler.numbering import Occurrences
from lib.compiler.orders import Order
from lib.compiler.tables import MISFIT, UNSET, ProgramTables


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
        pairs = [np.zeros((0, 2), np.int64)]
        for configurations, operations in self.calls.repeated(self.layouts):
            for number in map(self.numbered.number, operations):
                pairs.append(np.stack([configurations, np.full_like(configurations, number)], 1))
        return np.concatenate(pairs)

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
            order = np.where(self._misfits[:, place, role], none, self.layouts[:, place, role])
            site = OperationSite(int(self.graph.configurable[place]), role)
            self._off_layout.add(site, noted[:, place, role], order, order)

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
        self._copies.add(CopySite(tensor, reason, reader), before != after, before, after)

    def _works_in(self, node: int, order: np.ndarray) -> None:
        """Note an operation that works in another order than the program's own."""
        self._off_layout.add(OperationSite(node), order != self.orders.plain[node], order, order)
