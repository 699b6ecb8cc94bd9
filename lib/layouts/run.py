"""One batch of configurations: the orders of its tensors, and what is kept of the way there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lib.layouts.found import ASKED, NONE, Found, Numbered
from lib.layouts.orders import Order

if TYPE_CHECKING:
    from lib.layouts.propagation import Propagation


class Run(ABC):
    """What is common to the ways in which layouts take effect.

    Attributes:
        order: of each node's output, (b or 1,) numbers of orders.
    """

    def __init__(self, of: Propagation, layouts: np.ndarray):
        self.of, self.program, self.count = of, of.program, len(layouts)
        self.layouts = self._fitting(layouts)
        self.order: list[np.ndarray | None] = [None] * len(of.program.opcode)
        self.rows: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"moves": [], "states": []}

    def found(self) -> Found:
        """What the configurations make a compiler do."""
        self.visit()
        return Found(*(self._joined(name) for name in ("moves", "states")))

    @abstractmethod
    def visit(self) -> None:
        """Give every node's output its order, and keep moves and states on the way."""

    def _fitting(self, layouts: np.ndarray) -> np.ndarray:
        """Layouts, but ``NONE`` where one has another rank than its tensor."""
        ranks = np.array([len(order) for order in self.of.orders.items])
        fits = (layouts >= 0) & (ranks[np.maximum(layouts, 0)] == self.of.ranks)
        return np.where(fits, layouts, NONE)

    def _read(self, node: int, slot: int) -> np.ndarray | None:
        """The order in which a configurable node is given an operand: as asked, else as it lies;
        ``None`` if there is no such operand, or it has no order."""
        place = self.of.site[node]
        tensor = self.of.slots[place].tensors[slot]
        if tensor < 0 or self.order[tensor] is None:
            return None
        asked = self.layouts[:, place, slot]
        read = np.where(asked >= 0, asked, self.order[tensor])
        self._move(tensor, self.order[tensor], read, ASKED, node)
        return read

    def _after_transpose(self, node: int, read: np.ndarray) -> np.ndarray:
        back = {source: d for d, source in enumerate(self.of.turned[node])}

        def find(order: Order) -> Order:
            """Of the output, where nothing moves."""
            return tuple(back[d] for d in order)

        return self._each(read, lambda one: self.of.mapped("after", node, one, find))

    @staticmethod
    def _each(numbers: np.ndarray, find: Callable[[int], int]) -> np.ndarray:
        """``find`` of each number, ``NONE`` staying ``NONE``."""
        distinct, places = np.unique(numbers, return_inverse=True)
        return np.array([NONE if n < 0 else find(int(n)) for n in distinct])[places]

    def _move(
        self, tensor: int, before: np.ndarray, after: np.ndarray, reason: int, reader: int
    ) -> None:
        self._keep("moves", before != after, tensor, before, after, reason, reader)

    def _state(self, node: int, order: np.ndarray) -> None:
        self._keep("states", order != self.of.plain[node], node, order, order)

    def _keep(
        self,
        name: str,
        which: np.ndarray,
        node: int,
        one: np.ndarray,
        other: np.ndarray,
        *more: int,
    ) -> None:
        """Note (node, one, other, *more) for the configurations at ``which``, (b or 1,) each."""
        if not which.any():
            return
        size = len(self.of.orders.items)
        keys = np.where(which, one * size + other, NONE)
        distinct, places = np.unique(keys, return_inverse=True)
        numbers = np.full(len(distinct), NONE)
        table: Numbered = getattr(self.of, name)
        for index, key in enumerate(distinct.tolist()):
            if key >= 0 and self._tells(name, node, *divmod(key, size)):
                numbers[index] = table.number((node, *divmod(key, size), *more))
        rows = np.broadcast_to(numbers[places], self.count)
        kept = np.flatnonzero(rows >= 0)
        self.rows[name].append((kept, rows[kept]))

    def _tells(self, name: str, node: int, one: int, other: int) -> bool:
        """Whether elements lie elsewhere than they would."""
        of = self.of
        if name == "moves":
            return not of.same_in_memory(node, one, other)
        if not of.orders.items[other]:
            return True  # a reshape that moves data
        return not of.same_in_memory(node, other, of.plain[node])

    def _joined(self, name: str) -> np.ndarray:
        parts = self.rows[name]
        if not parts:
            return np.zeros((0, 2), np.int64)
        return np.stack([np.concatenate(side) for side in zip(*parts, strict=True)], axis=1)
