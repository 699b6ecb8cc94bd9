"""Layouts that return: what is not configured keeps the program's own order.

XLA's layout assignment for CPUs holds every operand of every instruction to row-major, but for
what a configuration fixes. So a tensor is brought into the layout that is asked of it and, for
whoever reads it, back again; nothing else moves. Two exceptions: a transpose that only configured
operands read costs nothing of its own, since it gives another order to the same elements, and
operations that may write in any order write in the one that is asked.
"""

from __future__ import annotations

import numpy as np

from lib.layouts.found import GIVES, NONE, READ, TRANSPOSED, WANTS
from lib.layouts.run import Run
from lib.tpugraphs.opcodes import ID_OF_NAME, RESHAPE

ANY_ORDER = tuple(
    ID_OF_NAME[name] for name in ("broadcast", "reduce", "gather", "iota", "constant")
)


class Returning(Run):
    """One batch of configurations whose layouts reach no further than their own tensors."""

    def visit(self) -> None:
        """Orders in which outputs are left, then what readers do about them."""
        for node in self.of.in_order:
            if self.of.moves_data(node):
                self.order[node] = self._left_in(node)
        for node in self.of.site:
            self._read_operands(node)
            if self.order[node] is not None:
                self._give(node)

    def _left_in(self, node: int) -> np.ndarray:
        """The order of a node's output before anyone asks for another, (b or 1,)."""
        plain = np.full(1, self.of.plain[node])
        if node in self.of.site:
            asked = self.layouts[:, self.of.site[node], 0]
            return np.where(asked >= 0, asked, plain)
        if node in self.of.turned:
            return self._turned(node, plain)
        if self.program.opcode[node] in ANY_ORDER:
            asked = self._asked_by_all(node)
            self._state(node, np.where(asked >= 0, asked, plain))
            return np.where(asked >= 0, asked, plain)
        return plain

    def _turned(self, node: int, plain: np.ndarray) -> np.ndarray:
        """A transpose's output: as its operand lies if only configured operands read it."""
        operand = self.program.operands[node][0]
        if not self.of.moves_data(operand):
            return plain
        natural = self._after_transpose(node, np.full(1, self.of.plain[operand]))
        order = np.where(self._asked_by_all(node) >= 0, natural, plain)
        self._move(node, np.broadcast_to(natural, order.shape), order, TRANSPOSED, node)
        return order

    def _asked_by_all(self, node: int) -> np.ndarray:
        """The first user's layout of a node's output, ``NONE`` if a user has none for it, (b,)."""
        first, every = np.full(self.count, NONE), bool(self.program.users[node])
        for user in self.program.users[node]:
            asked = self._asked_by(user, node)
            first, every = np.where(first >= 0, first, asked), every & (asked >= 0)
        return np.where(every, first, NONE)

    def _asked_by(self, user: int, node: int) -> np.ndarray:
        """The layout that a user's configuration asks of its operand, (b,)."""
        found = np.full(self.count, NONE)
        place = self.of.site.get(user)
        if place is None:
            return found
        for slot in (1, 2):
            if self.of.slots[place].tensors[slot] == node:
                found = np.where(found >= 0, found, self.layouts[:, place, slot])
        return found

    def _read_operands(self, node: int) -> None:
        """A configurable node's operands: as asked, then as the operation wants them."""
        place, opcode = self.of.site[node], self.program.opcode[node]
        slots = self.of.slots[place]
        for slot in (1, 2):
            tensor, read = slots.tensors[slot], self._read(node, slot)
            if read is None:
                continue
            if opcode == RESHAPE:
                wanted = self.of.plain[tensor]
            else:
                wanted = self.of.orders.number(slots.wanted[slot])
            self._move(tensor, read, np.full(1, wanted), WANTS[opcode], node)

    def _give(self, node: int) -> None:
        """A configurable node's output: into its layout, and back for those who read it so."""
        plain, order = np.full(1, self.of.plain[node]), self.order[node]
        self._move(node, plain, order, GIVES[self.program.opcode[node]], node)
        for user in dict.fromkeys(self.program.users[node]):
            if user not in self.of.site:
                self._move(node, order, plain, READ, user)
