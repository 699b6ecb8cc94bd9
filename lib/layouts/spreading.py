"""Layouts that spread: what lies between configured tensors takes its layout from its neighbours.

XLA's layout assignment does so where nothing else is said: a constraint spreads from an operand to
what produces it, then from operands to results, and what is left stays as it is in the program; a
convolution or dot wants its own form (:mod:`lib.layouts.operands`). Wherever two layouts meet,
elements are moved.
"""

from __future__ import annotations

import numpy as np

from lib.layouts.found import NONE, READ, REDUCED, TRANSPOSED, gives, wants
from lib.layouts.orders import Order, bitcast_order
from lib.layouts.program import IS_ROOT
from lib.layouts.run import Run
from lib.tpugraphs.opcodes import ID_OF_NAME, RESHAPE

TUPLE, PARAMETER, REDUCE = (ID_OF_NAME[name] for name in ("tuple", "parameter", "reduce"))
FREE = (ID_OF_NAME["constant"], ID_OF_NAME["iota"])  # take whatever order is asked of them


class Spreading(Run):
    """One batch of configurations whose layouts spread."""

    def visit(self) -> None:
        """Wishes from users to operands, then orders from operands to users."""
        self.wanted: list[np.ndarray | None] = [None] * len(self.order)  # by those who read it
        for node in reversed(self.of.in_order):
            if self.of.moves_data(node) and node not in self.of.site:
                self.wanted[node] = self._asked_by_users(node)
        for node in self.of.in_order:
            if self.of.moves_data(node):
                self.order[node] = self._visit(node)

    def _asked_by_users(self, node: int) -> np.ndarray:
        """The order that the first user with a wish asks of a node's output, (b or 1,)."""
        found = np.full(1, NONE)
        for user in self.program.users[node]:
            if (found >= 0).all():
                break
            found = np.where(found >= 0, found, self._asked_by(user, node))
        if (found < 0).any() and self.program.features[node, IS_ROOT]:
            found = np.where(found >= 0, found, self.of.plain[node])
        return found

    def _asked_by(self, user: int, node: int) -> np.ndarray:
        opcode, nothing = self.program.opcode[user], np.full(1, NONE)
        if user in self.of.site:
            return self._asked_by_site(user, node)
        if opcode == TUPLE:
            return np.full(1, self.of.plain[node])
        wish = self.wanted[user]
        if wish is None or self.of.rank(user) != self.of.rank(node):
            return nothing
        return self._before_transpose(user, wish) if user in self.of.turned else wish

    def _asked_by_site(self, user: int, node: int) -> np.ndarray:
        place = self.of.site[user]
        slots, found = self.of.slots[place], np.full(1, NONE)
        for slot in (1, 2):
            if slots.tensors[slot] == node:
                own = self.layouts[:, place, slot]
                if self.program.opcode[user] != RESHAPE:
                    own = np.where(own >= 0, own, self.of.orders.number(slots.wanted[slot]))
                found = np.where(found >= 0, found, own)
        return found

    def _visit(self, node: int) -> np.ndarray:
        """The order of a node's output; moves and states on the way are kept."""
        opcode = self.program.opcode[node]
        plain = np.full(1, self.of.plain[node])
        if node in self.of.site:
            return self._visit_site(node)
        if opcode == PARAMETER:
            return plain
        wanted = self.wanted[node]
        if opcode in FREE:
            return np.where(wanted >= 0, wanted, plain)
        if node in self.of.turned and (read := self._read_by_transpose(node)) is not None:
            natural = self._after_transpose(node, read)
            order = np.where(wanted >= 0, wanted, natural)
            self._move(node, natural, order, TRANSPOSED, node)
        else:
            order = self._visit_operation(node, wanted, plain)
        self._state(node, order)
        return order

    def _visit_operation(self, node: int, wanted: np.ndarray, plain: np.ndarray) -> np.ndarray:
        """Its readers' wish, else the first operand's order that is not plain, else the plain."""
        alike = [
            operand
            for operand in self.program.operands[node]
            if self.of.rank(operand) == self.of.rank(node)
            and self.order[operand] is not None
            and self.program.opcode[operand] not in FREE
        ]
        order = wanted
        for operand in alike:
            read = self.order[operand]
            order = np.where((order >= 0) | (read == plain), order, read)
        order = np.where(order >= 0, order, plain)
        for operand in alike:
            self._move(operand, self.order[operand], order, READ, node)
        if self.program.opcode[node] == REDUCE:
            self._reduced(node)
        return order

    def _reduced(self, node: int) -> None:
        """A reduction's kernel reads its operands in their plain order."""
        for operand in self.program.operands[node]:
            if self.order[operand] is not None:
                plain = np.full(1, self.of.plain[operand])
                self._move(operand, self.order[operand], plain, REDUCED, node)

    def _visit_site(self, node: int) -> np.ndarray:
        place = self.of.site[node]
        slots, opcode = self.of.slots[place], self.program.opcode[node]
        asked, current = self.layouts[:, place], None
        for slot in (1, 2):
            tensor, read = slots.tensors[slot], self._read(node, slot)
            if read is None:
                continue
            current = read if slot == 1 else current
            if opcode != RESHAPE:
                wanted = np.full(1, self.of.orders.number(slots.wanted[slot]))
                self._move(tensor, read, wanted, wants(opcode), node)
        if opcode == RESHAPE:
            natural = self._reshaped(node, slots.tensors[1], current)
        else:
            natural = np.full(1, self.of.orders.number(slots.wanted[0]))
        order = np.where(asked[:, 0] >= 0, asked[:, 0], natural)
        self._move(node, natural, order, gives(opcode), node)
        return order

    def _reshaped(self, node: int, operand: int, read: np.ndarray | None) -> np.ndarray:
        """The order in which a reshape moves nothing; row-major, and a state, if there is none."""
        if read is None:
            return np.full(1, self.of.plain[node])
        shapes = self.program.shapes

        def find(order: Order) -> Order:
            """The bitcast's order, or () if data must move."""
            return bitcast_order(order, shapes[operand], shapes[node]) or ()

        natural = self._each(read, lambda one: self.of.mapped("reshape", node, one, find))
        moved = natural == self.of.orders.number(())
        if moved.any():
            self._keep("states", moved, node, np.where(moved, read, NONE), natural)
        return np.where(moved, self.of.plain[node], natural)

    def _read_by_transpose(self, node: int) -> np.ndarray | None:
        return self.order[self.program.operands[node][0]]

    def _before_transpose(self, node: int, wish: np.ndarray) -> np.ndarray:
        permutation = self.of.turned[node]

        def find(order: Order) -> Order:
            """Of the operand, where nothing moves."""
            return tuple(permutation[d] for d in order)

        return self._each(wish, lambda one: self.of.mapped("before", node, one, find))
