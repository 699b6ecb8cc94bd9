"""Layouts that return: what is not configured keeps the program's own order.

XLA's layout assignment for CPUs holds every operand of every instruction to row-major, but for what
a configuration sets. So a tensor is brought into the layout that is configured and, for whoever
reads it, back again; nothing else moves. But elementwise operations, transposes and reshapes are
fused into the loops of their readers (:mod:`lib.compiler.cpu.loops`): a loop that reads one
constrained tensor and writes another goes from the one layout to the other at once, and pays
nothing where they agree. And operations that may write in any order write in the one that is
configured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lib.compiler.cpu.effects import (
    OPERAND_REASONS,
    OUTPUT_REASONS,
    CopySite,
    Effects,
    OperationSite,
    Reason,
)
from lib.compiler.cpu.loops import Condition, Source
from lib.compiler.cpu.numbering import Occurrences
from lib.compiler.cpu.tables import MISFIT, UNSET, ProgramTables
from lib.compiler.operands import OPERAND_ROLES, OUTPUT
from lib.compiler.orders import Order
from lib.tpugraphs.opcodes import RESHAPE


class Written(NamedTuple):
    """An order that a loop writes in: the order, whether it is configured, and where; (b,) each."""

    order: np.ndarray
    configured: np.ndarray
    where: np.ndarray


class Returning:
    """One batch of b configurations, whose layouts propagate no further than their own tensors.

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
        self._visit()
        self._note_misfits()
        return Effects(self._copies.all(), self._off_layout.all(), self._repeated())

    def _visit(self) -> None:
        """Orders in which outputs are left, then what readers do about them."""
        for node in self.facts.operands_first:
            if self.facts.has_order[node]:
                self.order[node] = self._plain(node)
        for node, place in self.facts.place.items():
            if self.order[node] is not None:
                configured = self.layouts[:, place, OUTPUT]
                self.order[node] = np.where(configured >= 0, configured, self.order[node])
        for node in self.loops.in_any_order:
            configured = self._configured_by_all(node)
            self.order[node] = np.where(configured >= 0, configured, self.order[node])
            self._works_in(node, self.order[node])
        for node in self.loops.affected:
            self._run_loop(node)
        for node in self.facts.place:
            self._read_operands(node)
            if self.order[node] is not None:
                self._write_output(node)

    def _configured_by_all(self, node: int) -> np.ndarray:
        """The first user's layout of a node's output, ``UNSET`` if a user has none for it, (b,)."""
        first, every = np.full(self.count, UNSET), np.ones(self.count, bool)
        for user in self.graph.users[node]:
            configured = np.full(self.count, UNSET)
            for role in self.facts.roles(user, node):
                layout = self.layouts[:, self.facts.place[user], role]
                configured = np.where(configured >= 0, configured, layout)
            first, every = np.where(first >= 0, first, configured), every & (configured >= 0)
        return np.where(every, first, UNSET)

    def _run_loop(self, node: int) -> None:
        """What the loop that ends in a node reads, for each order that it is written in."""
        earlier: list[np.ndarray] = []
        for writing in self._written(node):
            order = np.where(writing.where, writing.order, UNSET)
            new = writing.where & ~np.any([order == old for old in earlier], axis=0)
            for source in self.loops.sources(node):
                where = new & self._met(source.conditions)
                if where.any():
                    self._read_source(node, source, Written(order, writing.configured, where))
            earlier.append(order)

    def _met(self, conditions: tuple[Condition, ...]) -> np.ndarray:
        """Which configurations meet conditions, (b,)."""
        met = np.ones(self.count, bool)
        for place, role, configured in conditions:
            met &= (self.layouts[:, place, role] >= 0) == configured
        return met

    def _read_source(self, node: int, source: Source, written: Written) -> None:
        """A loop's reading of one tensor, from the order it lies in to the one that is written."""
        lies, tensor, path = self._lies(source), source.tensor, source.path
        reason, if_configured = Reason.READER, Reason.CONFIGURED
        if any(step not in self.facts.transposes for step in path):
            tensor, reason, if_configured = node, Reason.RESHAPE_OPERAND, Reason.RESHAPE_OUTPUT
        elif path:
            tensor, reason = node, Reason.TRANSPOSE
            for transpose in path:
                lies = self._after_transpose(transpose, lies)
            path = ()
        for chosen, why in ((written.configured, if_configured), (~written.configured, reason)):
            where = written.where & chosen
            if path:  # through reshapes, in parts of dimensions
                lies = np.broadcast_to(lies, self.count)
                self._copies.add(CopySite(node, why, node, path), where, lies, written.order)
            else:
                self._copy(tensor, lies, np.where(where, written.order, lies), why, node)

    def _lies(self, source: Source) -> np.ndarray:
        """The order in which what a loop reads lies in memory, (b or 1,)."""
        if source.lies_as is None:
            return self.order[source.tensor]
        place, role = source.lies_as
        return self.layouts[:, place, role]

    def _written(self, node: int) -> list[Written]:
        """The orders in which those who are not fused into a node's loop have it written, and
        those in which a layout is configured, its own one first."""
        every = np.ones(self.count, bool)
        plainly = Written(np.broadcast_to(self._plain(node), self.count), ~every, every)
        users = self.graph.users[node]
        written = [writing for user in users for writing in self._written_for(node, user, plainly)]
        written = written if users else [plainly]
        if node not in self.facts.place:
            return written
        layout = self.layouts[:, self.facts.place[node], OUTPUT]
        passed = [writing._replace(where=writing.where & (layout < 0)) for writing in written]
        return [Written(layout, every, layout >= 0), *passed]

    def _written_for(self, node: int, user: int, plainly: Written) -> list[Written]:
        """The orders in which a user has a loop's node written: none if it is fused with it."""
        roles, every = self.facts.roles(user, node), plainly.where
        if not self.loops.fuses(user):
            return [Written(*self._read_as(user, role), every) for role in roles] or [plainly]
        configured = [self.layouts[:, self.facts.place[user], role] for role in roles]
        return [Written(order, every, order >= 0) for order in configured]

    def _read_as(self, node: int, role: int) -> tuple[np.ndarray, np.ndarray]:
        """The order in which a configurable node reads a loop's output: as configured, else as it
        prefers."""
        configured = self.layouts[:, self.facts.place[node], role]
        order = np.where(configured >= 0, configured, self._preferred(node, role))
        return order, configured >= 0

    def _preferred(self, node: int, role: int) -> int:
        """The number of the order in which a configurable node itself reads an operand."""
        constrained = self.facts.constrained[self.facts.place[node]]
        if self.graph.opcode[node] == RESHAPE:
            return self.orders.plain[constrained.tensors[role]]
        return self.orders.number(constrained.preferred[role])

    def _read_operands(self, node: int) -> None:
        """A configurable node's operands: as configured, then as the operation prefers them."""
        for role in OPERAND_ROLES:
            tensor = self.facts.constrained[self.facts.place[node]].tensors[role]
            if tensor < 0 or self.order[tensor] is None:
                continue
            wanted, configured = self._read_as(node, role)
            in_loop = self._in_loop(tensor)  # and written as it is wanted
            lies = np.where(in_loop, wanted, self.order[tensor])
            read = np.where(in_loop | configured, wanted, lies)
            self._copy(tensor, lies, read, Reason.CONFIGURED, node)
            if not self.loops.fuses(node):
                preferred = np.full(1, self._preferred(node, role))
                reason = OPERAND_REASONS.get(self.graph.opcode[node], Reason.READER)
                self._copy(tensor, read, preferred, reason, node)

    def _in_loop(self, node: int) -> np.ndarray:
        """Where a node's output is written only by loops, for those who read it, (b,)."""
        if not self.loops.fuses(node):
            return np.zeros(self.count, bool)
        if node not in self.facts.place:
            return np.ones(self.count, bool)
        return self.layouts[:, self.facts.place[node], OUTPUT] < 0

    def _write_output(self, node: int) -> None:
        """A configurable node's output: into its layout, and back for those who read it so."""
        plain, order = self._plain(node), self.order[node]
        if not self.loops.fuses(node):
            reason = OUTPUT_REASONS.get(self.graph.opcode[node], Reason.CONFIGURED)
            self._copy(node, plain, order, reason, node)
        for user in dict.fromkeys(self.graph.users[node]):
            if user not in self.facts.place and not self.loops.fuses(user):
                self._copy(node, order, plain, Reason.READER, user)

    def _repeated(self) -> np.ndarray:
        """Pairs [configuration, number of a repeated operation]."""
        pairs = [np.zeros((0, 2), np.int64)]
        for configurations, operations in self.calls.repeated(self.layouts):
            for number in map(self.numbered.number, operations):
                pairs.append(np.stack([configurations, np.full_like(configurations, number)], 1))
        return np.concatenate(pairs)

    def _note_misfits(self) -> None:
        """Note configured layouts that fit no tensor, of which nothing else is known."""
        none = np.full(1, self.orders.number(()))
        for place, role in np.argwhere(self._misfits.any(axis=0)).tolist():  # next to none
            site = OperationSite(int(self.graph.configurable[place]), role)
            self._off_layout.add(site, self._misfits[:, place, role], none, none)

    def _plain(self, node: int) -> np.ndarray:
        """The order of a node's output in the program as it stands, (1,)."""
        return self._plain_orders[node : node + 1]

    def _after_transpose(self, node: int, read: np.ndarray) -> np.ndarray:
        """The order of a transpose's output if nothing moves, from that of its operand."""
        permutation = self.facts.transposes[node]

        def renamed(order: Order) -> Order:
            return tuple(permutation.index(d) for d in order)

        return _each_number(read, lambda number: self.orders.mapped(node, number, renamed))

    def _copy(
        self, tensor: int, before: np.ndarray, after: np.ndarray, reason: Reason, reader: int
    ) -> None:
        """Note a copy of a tensor for a reader, for the configurations whose orders differ."""
        self._copies.add(CopySite(tensor, reason, reader), before != after, before, after)

    def _works_in(self, node: int, order: np.ndarray) -> None:
        """Note an operation that works in another order than the program's own."""
        self._off_layout.add(OperationSite(node), order != self.orders.plain[node], order, order)


def _each_number(numbers: np.ndarray, map_number: Callable[[int], int]) -> np.ndarray:
    """``map_number`` of each of (b or 1,) numbers, ``UNSET`` staying ``UNSET``."""
    distinct, places = np.unique(numbers, return_inverse=True)
    return np.array([UNSET if n < 0 else map_number(n) for n in distinct.tolist()])[places]
