"""Layouts that spread: what lies between constrained tensors takes its layout from its neighbours.

XLA's layout assignment does so where nothing else is said: a constraint spreads from an operand to
what produces it, then from operands to results, and what is left stays as it is in the program; a
convolution or dot prefers its own form (:mod:`lib.compiler.operands`). Wherever two layouts meet,
elements are copied.
"""

from __future__ import annotations

import numpy as np

from lib.compiler.effects import OperationSite, Reason, operand_reason, output_reason
from lib.compiler.operands import INPUT, OPERAND_ROLES, OUTPUT
from lib.compiler.orders import Order, bitcast_order
from lib.compiler.resolution import Resolution
from lib.compiler.tables import UNSET
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.opcodes import ID_OF_NAME, RESHAPE

TUPLE, PARAMETER, REDUCE = (ID_OF_NAME[name] for name in ("tuple", "parameter", "reduce"))
FREE = (ID_OF_NAME["constant"], ID_OF_NAME["iota"])  # take whatever order is requested of them
IS_ROOT = FEATURE_NAMES.index("is_root")


class Spreading(Resolution):
    """One batch of configurations whose layouts spread.

    Attributes:
        requested: the order that the readers of each node's output request; ``None`` where the
            node is configurable, or its output has no order.
    """

    def visit(self) -> None:
        """Requests from users to operands, then orders from operands to users."""
        self.requested: list[np.ndarray | None] = [None] * len(self.order)
        for node in reversed(self.facts.operands_first):
            if self.facts.has_order[node] and node not in self.facts.place:
                self.requested[node] = self._requested_by_users(node)
        for node in self.facts.operands_first:
            if self.facts.has_order[node]:
                self.order[node] = self._visit(node)

    def _requested_by_users(self, node: int) -> np.ndarray:
        """What the first user with a request asks of a node's output, (b or 1,)."""
        request = np.full(1, UNSET)
        for user in self.graph.users[node]:
            if (request >= 0).all():
                break
            request = np.where(request >= 0, request, self._requested_by(user, node))
        if (request < 0).any() and self.graph.features[node, IS_ROOT]:
            request = np.where(request >= 0, request, self.orders.plain[node])
        return request

    def _requested_by(self, user: int, node: int) -> np.ndarray:
        if user in self.facts.place:
            return self._requested_by_configurable(user, node)
        if self.graph.opcode[user] == TUPLE:
            return self._plain(node)
        request = self.requested[user]
        if request is None or self.graph.rank(user) != self.graph.rank(node):
            return np.full(1, UNSET)
        return self._before_transpose(user, request) if user in self.facts.transposes else request

    def _requested_by_configurable(self, user: int, node: int) -> np.ndarray:
        place = self.facts.place[user]
        constrained, request = self.facts.constrained[place], np.full(1, UNSET)
        for role in OPERAND_ROLES:
            if constrained.tensors[role] == node:
                own = self.layouts[:, place, role]
                if self.graph.opcode[user] != RESHAPE and self.facts.hardware.wants_row_major:
                    preferred = self.orders.number(constrained.preferred[role])
                    own = np.where(own >= 0, own, preferred)
                request = np.where(request >= 0, request, own)
        return request

    def _visit(self, node: int) -> np.ndarray:
        """The order of a node's output; copies and off-layout operations are noted."""
        if node in self.facts.place:
            return self._visit_configurable(node)
        opcode, plain = self.graph.opcode[node], self._plain(node)
        if opcode == PARAMETER:
            return plain
        request = self.requested[node]
        if opcode in FREE:
            return np.where(request >= 0, request, plain)
        if node in self.facts.transposes and (read := self._read_by_transpose(node)) is not None:
            natural = self._after_transpose(node, read)
            order = np.where(request >= 0, request, natural)
            self._copy(node, natural, order, Reason.TRANSPOSE, node)
        else:
            order = self._visit_operation(node, request, plain)
        self._works_in(node, order)
        return order

    def _visit_operation(self, node: int, request: np.ndarray, plain: np.ndarray) -> np.ndarray:
        """As its readers request, else the first operand's order that is not plain, else plain."""
        alike = [
            operand
            for operand in self.graph.operands[node]
            if self.graph.rank(operand) == self.graph.rank(node)
            and self.order[operand] is not None
            and self.graph.opcode[operand] not in FREE
        ]
        order = request
        for operand in alike:
            read = self.order[operand]
            order = np.where((order >= 0) | (read == plain), order, read)
        order = np.where(order >= 0, order, plain)
        for operand in alike:
            self._copy(operand, self.order[operand], order, Reason.READER, node)
        if self.graph.opcode[node] == REDUCE:
            self._reduce(node)
        return order

    def _reduce(self, node: int) -> None:
        """A reduction's kernel reads its operands in their plain order, where it has that wish."""
        if not self.facts.hardware.wants_row_major:
            return
        for operand in self.graph.operands[node]:
            if (order := self.order[operand]) is not None:
                self._copy(operand, order, self._plain(operand), Reason.REDUCTION_OPERAND, node)

    def _visit_configurable(self, node: int) -> np.ndarray:
        place, opcode = self.facts.place[node], self.graph.opcode[node]
        constrained, read = self.facts.constrained[place], {}
        for role in OPERAND_ROLES:
            read[role] = self._read(node, role)
            wants = opcode != RESHAPE and self.facts.hardware.wants_row_major
            if read[role] is not None and wants:
                preferred = np.full(1, self.orders.number(constrained.preferred[role]))
                tensor = constrained.tensors[role]
                self._copy(tensor, read[role], preferred, operand_reason(opcode), node)
        if opcode == RESHAPE:
            natural = self._reshape(node, constrained.tensors[INPUT], read[INPUT])
        else:
            natural = np.full(1, self.orders.number(constrained.preferred[OUTPUT]))
        configured = self.layouts[:, place, OUTPUT]
        order = np.where(configured >= 0, configured, natural)
        if opcode == RESHAPE or self.facts.hardware.wants_row_major:
            self._copy(node, natural, order, output_reason(opcode), node)
        return order

    def _reshape(self, node: int, operand: int, read: np.ndarray | None) -> np.ndarray:
        """The order in which a reshape moves nothing; if there is none the plain one, and an
        off-layout operation is noted."""
        if read is None:
            return self._plain(node)
        before, after = self.graph.shapes[operand], self.graph.shapes[node]

        def bitcast(order: Order) -> Order:
            return bitcast_order(order, before, after) or ()

        natural = self._each(read, lambda one: self.orders.mapped("reshape", node, one, bitcast))
        moves = natural == self.orders.number(())
        self._off_layout.add(OperationSite(node), moves, read, natural)
        return np.where(moves, self.orders.plain[node], natural)

    def _read_by_transpose(self, node: int) -> np.ndarray | None:
        return self.order[self.graph.operands[node][0]]

    def _before_transpose(self, node: int, request: np.ndarray) -> np.ndarray:
        """The order of a transpose's operand if nothing moves, from that of its output."""
        permutation = self.facts.transposes[node]

        def renamed(order: Order) -> Order:
            return tuple(permutation[d] for d in order)

        return self._each(request, lambda one: self.orders.mapped("before", node, one, renamed))
