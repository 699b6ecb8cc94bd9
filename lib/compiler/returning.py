"""Layouts that return: what is not configured keeps the program's own order.

XLA's layout assignment for CPUs holds every operand of every instruction to row-major, but for
what a configuration sets. So a tensor is brought into the layout that is configured and, for
whoever reads it, back again; nothing else moves. But elementwise operations and transposes are
fused into the loops of their readers (:mod:`lib.compiler.loops`): a loop that reads one constrained
tensor and writes another goes from the one layout to the other at once, and pays nothing where
they agree. And operations that may write in any order write in the one that is configured.
"""

from __future__ import annotations

import numpy as np

from lib.compiler.effects import Reason, operand_reason, output_reason
from lib.compiler.loops import ANY_ORDER
from lib.compiler.operands import OPERAND_ROLES, OUTPUT
from lib.compiler.resolution import Resolution
from lib.compiler.tables import UNSET
from lib.tpugraphs.opcodes import RESHAPE

Written = tuple[np.ndarray, np.ndarray]  # (b or 1,) orders, and whether they are configured


class Returning(Resolution):
    """One batch of configurations whose layouts propagate no further than their own tensors."""

    def visit(self) -> None:
        """Orders in which outputs are left, then what readers do about them."""
        for node in self.facts.operands_first:
            if self.facts.has_order[node]:
                self.order[node] = self._left_in(node)
        for node in self.loops.affected:
            self._run_loop(node)
        for node in self.facts.place:
            self._read_operands(node)
            if self.order[node] is not None:
                self._write_output(node)

    def _left_in(self, node: int) -> np.ndarray:
        """The order of a node's output before anyone reads it in another, (b or 1,)."""
        plain = self._plain(node)
        if node in self.facts.place:
            configured = self.layouts[:, self.facts.place[node], OUTPUT]
            return np.where(configured >= 0, configured, plain)
        if self.graph.opcode[node] in ANY_ORDER:
            configured = self._configured_by_all(node)
            order = np.where(configured >= 0, configured, plain)
            self._works_in(node, order)
            return order
        return plain

    def _configured_by_all(self, node: int) -> np.ndarray:
        """The first user's layout of a node's output, ``UNSET`` if a user has none for it, (b,)."""
        users = self.graph.users[node]
        first, every = np.full(self.count, UNSET), bool(users)
        for user in users:
            configured = np.full(self.count, UNSET)
            for role in self._roles(user, node):
                own = self.layouts[:, self.facts.place[user], role]
                configured = np.where(configured >= 0, configured, own)
            first, every = np.where(first >= 0, first, configured), every & (configured >= 0)
        return np.where(every, first, UNSET)

    def _roles(self, user: int, node: int) -> list[int]:
        """The roles, of input and kernel, that a node's output has for a configurable user."""
        if user not in self.facts.place:
            return []
        tensors = self.facts.constrained[self.facts.place[user]].tensors
        return [role for role in OPERAND_ROLES if tensors[role] == node]

    def _run_loop(self, node: int) -> None:
        """What the loop that ends in a node reads, for each order that it is written in."""
        sources = [self._source(node, *source) for source in self.loops.sources(node)]
        earlier: list[np.ndarray] = []
        for written, configured in self._written(node):
            new = ~np.any([written == one for one in earlier], axis=0) if earlier else True
            for tensor, lies, reason in sources:
                set_to = np.where(new & configured, written, lies)
                self._copy(tensor, lies, set_to, Reason.CONFIGURED, node)
                self._copy(tensor, lies, np.where(new & ~configured, written, lies), reason, node)
            earlier.append(np.broadcast_to(written, self.count))

    def _source(
        self, node: int, tensor: int, transposes: tuple[int, ...]
    ) -> tuple[int, np.ndarray, Reason]:
        """What a loop reads: the tensor as the loop's end sees it, its order, why it is copied."""
        lies = self.order[tensor]
        for transpose in transposes:
            lies = self._after_transpose(transpose, lies)
        return (node, lies, Reason.TRANSPOSE) if transposes else (tensor, lies, Reason.READER)

    def _written(self, node: int) -> list[Written]:
        """The orders in which those who are not fused into a node's loop have it written."""
        users, plain = self.graph.users[node], (self._plain(node), np.zeros(1, bool))
        written: list[Written] = []
        for user in users:
            roles = self._roles(user, node)
            written += [self._read_as(user, role) for role in roles]
            if not roles and not self.loops.fuses(user):
                written.append(plain)
        return written if users else [plain]

    def _read_as(self, node: int, role: int) -> Written:
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
            if tensor >= 0 and self.loops.fuses(tensor):
                read = self._read_as(node, role)[0]
            else:
                read = self._read(node, role)
            if read is not None:
                preferred = np.full(1, self._preferred(node, role))
                reason = operand_reason(self.graph.opcode[node])
                self._copy(tensor, read, preferred, reason, node)

    def _write_output(self, node: int) -> None:
        """A configurable node's output: into its layout, and back for those who read it so."""
        plain, order = self._plain(node), self.order[node]
        self._copy(node, plain, order, output_reason(self.graph.opcode[node]), node)
        for user in dict.fromkeys(self.graph.users[node]):
            if user not in self.facts.place and not self.loops.fuses(user):
                self._copy(node, order, plain, Reason.READER, user)
