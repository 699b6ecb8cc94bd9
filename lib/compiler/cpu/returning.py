"""Propagation of layouts: a tensor without a configured layout keeps the program's own order.

XLA's layout assignment for CPUs requires row-major operands of every instruction, except where a
configuration sets a layout. So a tensor is brought into its configured layout and, for its readers,
back again; nothing else moves. But elementwise operations, transposes and reshapes are fused into
the loops of their readers (:mod:`lib.compiler.cpu.loops`): a loop that reads one constrained tensor
and writes another goes from the one layout to the other at once, and costs nothing if they agree.
And an operation that can write in any order at the same cost writes in the configured one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lib.compiler.cpu.effects import (
    OPERAND_REASONS,
    OUTPUT_REASONS,
    CopySite,
    Reason,
)
from lib.compiler.cpu.loops import Source
from lib.compiler.cpu.tables import UNSET, Occurrences, ProgramTables
from lib.compiler.operands import OPERAND_ROLES, OUTPUT
from lib.tpugraphs.opcodes import RESHAPE


class Written(NamedTuple):
    """An order that a loop writes in: the order, whether it is configured, and the configurations
    in which the loop writes so; (b,) each."""

    order: np.ndarray
    configured: np.ndarray
    where: np.ndarray


class Returning:
    """A batch of b configurations, whose layouts propagate no further than their own tensors.

    Orders are numbers in ``orders``. A node's order under b configurations is a (b,) array, or a
    (1,) array if it is the same under all.

    Attributes:
        layouts: (b, k, 3) as configured, ``UNSET`` also if the tensor cannot have it.
        order: order of each node's output; ``None`` if it is not known yet, or there is none.
    """

    def __init__(self, tables: ProgramTables, layouts: np.ndarray):
        self.facts, self.orders, self.loops = tables.facts, tables.orders, tables.loops
        self.calls, self.numbered = tables.calls, tables.repeated
        self.graph, self.count = tables.facts.graph, len(layouts)
        self.layouts = tables.completion(layouts)
        self._plain_orders = np.array(self.orders.plain)
        self.order: list[np.ndarray | None] = [None] * len(self.graph.opcode)
        self._copies = Occurrences(tables.copies, self.count)
        self._off_layout = Occurrences(tables.off_layout, self.count)

    def effects(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the effects of the configurations: first orders of outputs, then their readers.

        Returns:
            Pairs [configuration, number] of copies, of operations off their layout, and of repeated
            operations, each (m, 2) int64.
        """
        self._set_orders()
        for node in self.loops.affected:
            self._run_loop(node)
        for node in self.facts.place:
            self._read_operands(node)
            if self.order[node] is not None:
                self._write_output(node)
        repeated = [np.zeros((0, 2), np.int64)]
        for configurations, operations in self.calls.repeated(self.layouts):
            for number in map(self.numbered.number, operations):
                pairs = np.stack([configurations, np.full_like(configurations, number)], 1)
                repeated.append(pairs)
        return self._copies.all(), self._off_layout.all(), np.concatenate(repeated)

    def _set_orders(self) -> None:
        """Set the order of each output, and note operations that work off the layout."""
        for node in self.facts.operands_first:
            if self.facts.has_order[node]:
                self.order[node] = self._plain(node)
        for node, place in self.facts.place.items():
            if self.order[node] is not None:
                configured = self.layouts[:, place, OUTPUT]
                self.order[node] = np.where(configured >= 0, configured, self.order[node])
        for node in self.loops.in_any_order:
            configured = self._configured_by_all(node)
            order = np.where(configured >= 0, configured, self.order[node])
            self.order[node] = order
            moved = order != self.orders.plain[node]
            self._off_layout.add(node, moved, order, order)

    def _configured_by_all(self, node: int) -> np.ndarray:
        """Return the first user's layout of a node's output, ``UNSET`` if a user has none, (b,)."""
        first, every = np.full(self.count, UNSET), np.ones(self.count, bool)
        for user in self.graph.users[node]:
            configured = np.full(self.count, UNSET)
            for role in self.facts.roles(user, node):
                layout = self.layouts[:, self.facts.place[user], role]
                configured = np.where(configured >= 0, configured, layout)
            first, every = np.where(first >= 0, first, configured), every & (configured >= 0)
        return np.where(every, first, UNSET)

    def _run_loop(self, node: int) -> None:
        """Note the copies of the loop that ends in a node, for each order that it writes in."""
        earlier: list[np.ndarray] = []
        for writing in self._written(node):
            order = np.where(writing.where, writing.order, UNSET)
            new = writing.where & ~np.any([order == old for old in earlier], axis=0)
            for source in self.loops.sources(node):
                where = new.copy()
                for place, role, configured in source.conditions:
                    where &= (self.layouts[:, place, role] >= 0) == configured
                if where.any():
                    self._read_source(node, source, Written(order, writing.configured, where))
            earlier.append(order)

    def _read_source(self, node: int, source: Source, written: Written) -> None:
        """Note the copy of one tensor that a loop reads, from its order to the written one."""
        tensor, path = source.tensor, source.path
        if source.layout_of is None:
            before = self.order[tensor]
        else:
            place, role = source.layout_of
            before = self.layouts[:, place, role]
        reason, if_configured = Reason.READER, Reason.CONFIGURED
        if any(step not in self.facts.transposes for step in path):
            tensor, reason, if_configured = node, Reason.RESHAPE_OPERAND, Reason.RESHAPE_OUTPUT
        elif path:
            tensor, reason = node, Reason.TRANSPOSE
            for transpose in path:
                before = self._after_transpose(transpose, before)
            path = ()
        for which, why in ((written.configured, if_configured), (~written.configured, reason)):
            where = written.where & which
            if path:  # through reshapes, in parts of dimensions
                before = np.broadcast_to(before, self.count)
                self._copies.add(CopySite(node, why, node, path), where, before, written.order)
            else:
                self._copy(tensor, before, np.where(where, written.order, before), why, node)

    def _written(self, node: int) -> list[Written]:
        """Return the orders that a node's loop writes in: its own configured layout, then those
        that the readers outside the loop need, and layouts that are configured for readers."""
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
        """Return the orders that a loop's node is written in for a user: none if they are fused."""
        roles, every = self.facts.roles(user, node), plainly.where
        if not self.loops.fuses(user):
            return [Written(*self._read_as(user, role), every) for role in roles] or [plainly]
        configured = [self.layouts[:, self.facts.place[user], role] for role in roles]
        return [Written(order, every, order >= 0) for order in configured]

    def _read_as(self, node: int, role: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the order in which a configurable node reads a loop's output, and whether it is
        configured; otherwise it is the preferred one."""
        configured = self.layouts[:, self.facts.place[node], role]
        order = np.where(configured >= 0, configured, self._preferred(node, role))
        return order, configured >= 0

    def _preferred(self, node: int, role: int) -> int:
        """Return the number of the order in which a configurable node itself reads an operand."""
        constrained = self.facts.constrained[self.facts.place[node]]
        if self.graph.opcode[node] == RESHAPE:
            return self.orders.plain[constrained.tensors[role]]
        return self.orders.number(constrained.preferred[role])

    def _read_operands(self, node: int) -> None:
        """Note copies of a configurable node's operands: to the configured order, then to the
        preferred one."""
        for role in OPERAND_ROLES:
            tensor = self.facts.constrained[self.facts.place[node]].tensors[role]
            if tensor < 0 or self.order[tensor] is None:
                continue
            wanted, configured = self._read_as(node, role)
            in_loop = np.full(self.count, self.loops.fuses(tensor))  # a loop writes it as wanted
            if tensor in self.facts.place:
                in_loop &= self.layouts[:, self.facts.place[tensor], OUTPUT] < 0
            before = np.where(in_loop, wanted, self.order[tensor])
            read = np.where(in_loop | configured, wanted, before)
            self._copy(tensor, before, read, Reason.CONFIGURED, node)
            if not self.loops.fuses(node):
                preferred = np.full(1, self._preferred(node, role))
                reason = OPERAND_REASONS.get(self.graph.opcode[node], Reason.READER)
                self._copy(tensor, read, preferred, reason, node)

    def _write_output(self, node: int) -> None:
        """Note copies of a configurable node's output: into its layout, and back for readers."""
        plain, order = self._plain(node), self.order[node]
        if not self.loops.fuses(node):
            reason = OUTPUT_REASONS.get(self.graph.opcode[node], Reason.CONFIGURED)
            self._copy(node, plain, order, reason, node)
        for user in dict.fromkeys(self.graph.users[node]):
            if user not in self.facts.place and not self.loops.fuses(user):
                self._copy(node, order, plain, Reason.READER, user)

    def _plain(self, node: int) -> np.ndarray:
        """Return the order of a node's output in the program itself, (1,)."""
        return self._plain_orders[node : node + 1]

    def _after_transpose(self, node: int, read: np.ndarray) -> np.ndarray:
        """Return the orders of a transpose's output that need no copy from (b or 1,) orders of its
        operand; ``UNSET`` stays ``UNSET``."""
        permutation, orders = self.facts.transposes[node], self.orders
        distinct, places = np.unique(read, return_inverse=True)
        numbers = [
            UNSET if n < 0 else orders.number(tuple(map(permutation.index, orders.items[n])))
            for n in distinct.tolist()
        ]
        return np.array(numbers)[places]

    def _copy(
        self, tensor: int, before: np.ndarray, after: np.ndarray, reason: Reason, reader: int
    ) -> None:
        """Note a copy of a tensor for a reader, for the configurations whose orders differ."""
        self._copies.add(CopySite(tensor, reason, reader), before != after, before, after)
