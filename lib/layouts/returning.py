"""Layouts that return: what is not configured keeps the program's own order.

XLA's layout assignment for CPUs holds every operand of every instruction to row-major, but for
what a configuration fixes. So a tensor is brought into the layout that is asked of it and, for
whoever reads it, back again; nothing else moves. But elementwise operations and transposes are
run in the loops of their readers (:mod:`lib.layouts.loops`): a loop that reads one configured
tensor and writes another goes from the one layout to the other at once, and pays nothing where
they agree. And operations that may write in any order write in the one that is asked.
"""

from __future__ import annotations

import numpy as np

from lib.layouts.found import ASKED, NONE, READ, TRANSPOSED, gives, wants
from lib.layouts.loops import ANY_ORDER
from lib.layouts.run import Run
from lib.tpugraphs.opcodes import RESHAPE

Written = tuple[np.ndarray, np.ndarray]  # (b or 1,) orders, and whether they were asked for


class Returning(Run):
    """One batch of configurations whose layouts reach no further than their own tensors."""

    def visit(self) -> None:
        """Orders in which outputs are left, then what readers do about them."""
        for node in self.of.in_order:
            if self.of.moves_data(node):
                self.order[node] = self._left_in(node)
        for node in self.of.loops.changing:
            self._run_loop(node)
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
        if self.program.opcode[node] in ANY_ORDER:
            asked = self._asked_by_all(node)
            self._state(node, np.where(asked >= 0, asked, plain))
            return np.where(asked >= 0, asked, plain)
        return plain

    def _asked_by_all(self, node: int) -> np.ndarray:
        """The first user's layout of a node's output, ``NONE`` if a user has none for it, (b,)."""
        first, every = np.full(self.count, NONE), bool(self.program.users[node])
        for user in self.program.users[node]:
            asked = np.full(self.count, NONE)
            for slot in self._slots_for(user, node):
                own = self.layouts[:, self.of.site[user], slot]
                asked = np.where(asked >= 0, asked, own)
            first, every = np.where(first >= 0, first, asked), every & (asked >= 0)
        return np.where(every, first, NONE)

    def _slots_for(self, user: int, node: int) -> list[int]:
        """The slots, of input and kernel, in which a configurable user has a node's output."""
        if user not in self.of.site:
            return []
        tensors = self.of.slots[self.of.site[user]].tensors
        return [slot for slot in (1, 2) if tensors[slot] == node]

    def _run_loop(self, node: int) -> None:
        """What the loop that ends in a node reads, for each order that it is written in."""
        sources = [self._source(node, *one) for one in self.of.loops.sources(node)]
        earlier: list[np.ndarray] = []
        for written, asked in self._written(node):
            new = ~np.any([written == one for one in earlier], axis=0) if earlier else True
            for tensor, lies, reason in sources:
                self._move(tensor, lies, np.where(new & asked, written, lies), ASKED, node)
                self._move(tensor, lies, np.where(new & ~asked, written, lies), reason, node)
            earlier.append(np.broadcast_to(written, self.count))

    def _source(
        self, node: int, tensor: int, turns: tuple[int, ...]
    ) -> tuple[int, np.ndarray, int]:
        """What a loop reads: the tensor as the loop's end sees it, how it lies, why it moves."""
        lies = self.order[tensor]
        for turn in turns:
            lies = self._after_transpose(turn, lies)
        return (node, lies, TRANSPOSED) if turns else (tensor, lies, READ)

    def _written(self, node: int) -> list[Written]:
        """The orders in which those who do not run in a node's loop have it written."""
        plain = np.full(1, self.of.plain[node]), np.zeros(1, bool)
        found: list[Written] = []
        for user in self.program.users[node]:
            slots = self._slots_for(user, node)
            found += [self._read_as(user, slot) for slot in slots]
            if not slots and not self.of.loops.runs(user):
                found.append(plain)
        return found if self.program.users[node] else [plain]

    def _read_as(self, site: int, slot: int) -> Written:
        """The order in which a configurable node reads a loop's output: as asked, or as wanted."""
        asked = self.layouts[:, self.of.site[site], slot]
        return np.where(asked >= 0, asked, self._wanted(site, slot)), asked >= 0

    def _wanted(self, site: int, slot: int) -> int:
        """The number of the order that the operation itself wants of an operand."""
        slots = self.of.slots[self.of.site[site]]
        if self.program.opcode[site] == RESHAPE:
            return self.of.plain[slots.tensors[slot]]
        return self.of.orders.number(slots.wanted[slot])

    def _read_operands(self, site: int) -> None:
        """A configurable node's operands: as asked, then as the operation wants them."""
        for slot in (1, 2):
            tensor = self.of.slots[self.of.site[site]].tensors[slot]
            if tensor >= 0 and self.of.loops.runs(tensor):
                read = self._read_as(site, slot)[0]
            else:
                read = self._read(site, slot)
            if read is not None:
                wanted = np.full(1, self._wanted(site, slot))
                self._move(tensor, read, wanted, wants(self.program.opcode[site]), site)

    def _give(self, site: int) -> None:
        """A configurable node's output: into its layout, and back for those who read it so."""
        plain, order = np.full(1, self.of.plain[site]), self.order[site]
        self._move(site, plain, order, gives(self.program.opcode[site]), site)
        for user in dict.fromkeys(self.program.users[site]):
            if user not in self.of.site and not self.of.loops.runs(user):
                self._move(site, order, plain, READ, user)
