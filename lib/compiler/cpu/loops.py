"""Operations that a compiler fuses into one loop, and the tensors that such a loop reads.

Elementwise operations, transposes and reshapes have no loop of their own: each is computed inside
the loops of its readers, once for every reader. So the loop that writes a tensor reads the nearest
tensors above it that are in memory, in their own orders, and nothing in between is ever written.
(This is XLA's loop fusion. XLA keeps some operations rather than repeat them; here all are
repeated: to keep them did not improve rankings.)

A tensor with a configured layout is written, though: no loop goes past it. So the tensors that a
loop reads beyond a reshape depend on which of the reshape's layouts are configured.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from lib.compiler.cpu.chains import is_elementwise
from lib.compiler.cpu.facts import ProgramFacts
from lib.compiler.cpu.views import View
from lib.compiler.operands import INPUT, OUTPUT
from lib.tpugraphs.opcodes import ID_OF_NAME, RESHAPE

# Operations that the reading loop computes without a read from memory.
GENERATED = tuple(ID_OF_NAME[name] for name in ("broadcast", "iota", "constant"))
# Operations that write in any order at the same cost.
ANY_ORDER = (*GENERATED, ID_OF_NAME["reduce"], ID_OF_NAME["gather"])
MOST_SOURCES = 16  # further sources of a loop are ignored


class Condition(NamedTuple):
    """The requirement that a layout, by the node's place and its role, is configured, or is not."""

    place: int
    role: int
    configured: bool


class Source(NamedTuple):
    """A tensor that a loop reads.

    Attributes:
        tensor: the tensor in memory.
        path: the transposes and reshapes from it to the loop's end.
        conditions: requirements under which it is read.
        layout_of: (place, role) of the configured layout that it has; ``None``: it has its own.
    """

    tensor: int
    path: tuple[int, ...] = ()
    conditions: tuple[Condition, ...] = ()
    layout_of: tuple[int, int] | None = None


class Loops:
    """The fused loops of one program, each named by the node that it ends in."""

    def __init__(self, facts: ProgramFacts):
        self._facts, self._graph = facts, facts.graph
        self._sources: dict[int, list[Source]] = {}
        self._views: dict[tuple[int, ...], View | None] = {}

    def fuses(self, node: int) -> bool:
        """Return whether a node is computed in a loop over its output's elements."""
        facts = self._facts
        if not facts.has_order[node]:
            return False
        if self.reshapes(node):
            return True
        if node in facts.place:
            return False
        return node in facts.transposes or is_elementwise(self._graph, node)

    def reshapes(self, node: int) -> bool:
        """Return whether a node is a reshape that a loop can read through."""
        graph, facts = self._graph, self._facts
        if graph.opcode[node] != RESHAPE or len(graph.operands[node]) != 1:
            return False
        (operand,) = graph.operands[node]
        return facts.has_order[node] and facts.has_order[operand] and self.view((node,)) is not None

    def view(self, path: tuple[int, ...]) -> View | None:
        """Return the view from the end of a path of transposes and reshapes on its first tensor.

        ``None`` if sizes do not divide.
        """
        if path not in self._views:
            shapes, operands = self._graph.shapes, self._graph.operands
            view: View | None = View.whole(shapes[path[-1]] if path else ())
            for node in reversed(path):
                if node in self._facts.transposes:
                    view = view.transposed(self._facts.transposes[node])
                elif (view := view.reshaped(shapes[operands[node][0]])) is None:
                    break
            self._views[path] = view
        return self._views[path]

    @cached_property
    def affected(self) -> list[int]:
        """Nodes whose loops a configuration can change, operands before their users.

        They read or are read by a tensor that it can give another order. All other loops cost the
        same under all configurations.
        """
        place, opcode = self._facts.place, self._graph.opcode
        affected = []
        for node in filter(self.fuses, self._facts.operands_first):
            sources = self.sources(node)  # operands' sources are known, so recursion stays flat
            neighbours = (node, *self._graph.users[node])
            if any(neighbour in place for neighbour in neighbours) or any(
                source.conditions or source.tensor in place or opcode[source.tensor] in ANY_ORDER
                for source in sources
            ):
                affected.append(node)
        return affected

    @cached_property
    def in_any_order(self) -> list[int]:
        """Nodes that write in the order that all of their readers configure, operands before their
        users."""
        facts, graph = self._facts, self._graph
        return [
            node
            for node in facts.operands_first
            if facts.has_order[node]
            and node not in facts.place
            and graph.opcode[node] in ANY_ORDER
            and graph.users[node]
            and all(facts.roles(user, node) for user in graph.users[node])
        ]

    def sources(self, node: int) -> list[Source]:
        """Return the tensors that the loop which ends in a node reads, each once.

        Operands that are fused are part of the loop. Operands of another shape than the node's are
        not read element by element, and are left out.
        """
        if node in self._sources:
            return self._sources[node]
        graph, facts = self._graph, self._facts
        moves = node in facts.transposes or self.reshapes(node)  # and computes nothing
        sources: dict[Source, None] = {}
        for operand in graph.operands[node]:
            if not facts.has_order[operand] or graph.opcode[operand] in GENERATED:
                continue
            if not moves and graph.shapes[operand] != graph.shapes[node]:
                continue
            above = [Source(operand)]
            if self.fuses(operand):
                above = self._unless_written(operand, OUTPUT, self.sources(operand))
            for source in self._unless_written(node, INPUT, above, operand):
                path = (*source.path, node) if moves else source.path
                if self.view(path) is not None:
                    sources[source._replace(path=path)] = None
        self._sources[node] = list(sources)[:MOST_SOURCES]
        return self._sources[node]

    def _unless_written(
        self, node: int, role: int, above: list[Source], tensor: int | None = None
    ) -> list[Source]:
        """Return the sources for a node's tensor: itself if its layout is configured, or ``above``.

        Args:
            node, role: a node in a loop, and the role of its tensor.
            above: the sources that are read if the layout is not configured.
            tensor: the role's tensor; ``None`` for the node's own output.
        """
        if node not in self._facts.place:
            return above
        place = self._facts.place[node]
        written, passed = Condition(place, role, True), Condition(place, role, False)
        layout_of = None if tensor is None else (place, role)
        here = Source(node if tensor is None else tensor, (), (written,), layout_of)
        return [here, *(s._replace(conditions=(passed, *s.conditions)) for s in above)]
