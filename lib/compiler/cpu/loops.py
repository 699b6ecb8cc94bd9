"""Which operations a compiler fuses into one loop, and what such a loop reads.

Elementwise operations, transposes and reshapes are not worth a loop of their own: each is computed
inside the loop of whoever reads it, again for every reader. So the loop that writes a tensor reads
what lies in memory above it, in the order in which it lies there, and nothing in between is ever
written. (XLA's loop fusion; an operation that it would rather keep than repeat is treated alike:
to keep it made rankings no better.)

A configured layout is written, though: no loop goes past it. So what a loop reads beyond a reshape
depends on which of the reshape's layouts are configured.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from lib.compiler.cpu.chains import is_elementwise
from lib.compiler.cpu.facts import ProgramFacts
from lib.compiler.cpu.views import View
from lib.compiler.operands import INPUT, OUTPUT
from lib.tpugraphs.opcodes import ID_OF_NAME, RESHAPE

# Made up inside the loop that reads them; nothing is read from memory for them.
MADE_UP = tuple(ID_OF_NAME[name] for name in ("broadcast", "iota", "constant"))
# Operations that write in any order at the same cost.
ANY_ORDER = (*MADE_UP, ID_OF_NAME["reduce"], ID_OF_NAME["gather"])
MOST_SOURCES = 16  # of a loop; more are left out


class Condition(NamedTuple):
    """A layout of a configurable node, by its place and the role, is configured, or it is not."""

    place: int
    role: int
    configured: bool


class Source(NamedTuple):
    """What a loop reads.

    Attributes:
        tensor: in memory.
        path: the transposes and reshapes from it to the loop's end.
        conditions: under which it is read.
        lies_as: the configured layout, (place, role), in which it lies; ``None``: in its own.
    """

    tensor: int
    path: tuple[int, ...] = ()
    conditions: tuple[Condition, ...] = ()
    lies_as: tuple[int, int] | None = None


class Loops:
    """The fused loops of one program, each named by the node that it ends in."""

    def __init__(self, facts: ProgramFacts):
        self._facts, self._graph = facts, facts.graph
        self._sources: dict[int, list[Source]] = {}
        self._views: dict[tuple[int, ...], View | None] = {}

    def fuses(self, node: int) -> bool:
        """Whether a node is computed in a loop that goes over its output's elements."""
        facts = self._facts
        if not facts.has_order[node]:
            return False
        if self.reshapes(node):
            return True
        if node in facts.place:
            return False
        return node in facts.transposes or is_elementwise(self._graph, node)

    def reshapes(self, node: int) -> bool:
        """Whether a node is a reshape that a loop can read through."""
        graph, facts = self._graph, self._facts
        if graph.opcode[node] != RESHAPE or len(graph.operands[node]) != 1:
            return False
        (operand,) = graph.operands[node]
        return facts.has_order[node] and facts.has_order[operand] and self.view((node,)) is not None

    def view(self, path: tuple[int, ...]) -> View | None:
        """How the end of a path of transposes and reshapes sees the tensor that it begins with.

        ``None`` if sizes do not divide.
        """
        if path not in self._views:
            self._views[path] = self._seen(path)
        return self._views[path]

    def _seen(self, path: tuple[int, ...]) -> View | None:
        shapes, operands = self._graph.shapes, self._graph.operands
        view: View | None = View.whole(shapes[path[-1]] if path else ())
        for node in reversed(path):
            if node in self._facts.transposes:
                view = view.transposed(self._facts.transposes[node])
            elif (view := view.reshaped(shapes[operands[node][0]])) is None:
                return None
        return view

    @cached_property
    def affected(self) -> list[int]:
        """Nodes whose loops a configuration can change, operands before their users: those that
        read or are read by what it can give another order. All others cost the same under all."""
        place = self._facts.place
        affected = []
        for node in filter(self.fuses, self._facts.operands_first):
            sources = self.sources(node)  # of operands first, so that none has to go down a chain
            around = node in place or any(user in place for user in self._graph.users[node])
            if around or any(map(self._varies, sources)):
                affected.append(node)
        return affected

    @cached_property
    def in_any_order(self) -> list[int]:
        """Nodes that write in whatever order is configured by all who read them, operands before
        their users."""
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

    def _varies(self, source: Source) -> bool:
        """Whether configurations can change what is read, or the order in which it lies."""
        any_order = self._graph.opcode[source.tensor] in ANY_ORDER
        return bool(source.conditions) or source.tensor in self._facts.place or any_order

    def sources(self, node: int) -> list[Source]:
        """What the loop that ends in a node reads, each once; operands' loops are part of it."""
        if node not in self._sources:
            ending = (node,) if self._is_passed(node) else ()
            read = [s for operand in self._whole_operands(node) for s in self._read(node, operand)]
            sources = [source._replace(path=source.path + ending) for source in read]
            seen = [source for source in sources if self.view(source.path) is not None]
            self._sources[node] = list(dict.fromkeys(seen))[:MOST_SOURCES]
        return self._sources[node]

    def _is_passed(self, node: int) -> bool:
        """Whether a node only says where the elements of its operand go."""
        return node in self._facts.transposes or self.reshapes(node)

    def _read(self, node: int, operand: int) -> list[Source]:
        """What a node in a loop reads of an operand, up to where that is in memory."""
        above = [Source(operand)]
        if self.fuses(operand):
            above = self._unless_written(operand, OUTPUT, self.sources(operand))
        return self._unless_written(node, INPUT, above, operand)

    def _unless_written(
        self, node: int, role: int, above: list[Source], tensor: int | None = None
    ) -> list[Source]:
        """A node's tensor that is written if its layout is configured; else what is above it.

        Args:
            node, role: in a loop, and which of its tensors.
            above: what is read for it otherwise.
            tensor: that is the role's; the node's own output if it is ``None``.
        """
        if node not in self._facts.place:
            return above
        place = self._facts.place[node]
        written, passed = Condition(place, role, True), Condition(place, role, False)
        lies_as = None if tensor is None else (place, role)
        here = Source(node if tensor is None else tensor, (), (written,), lies_as)
        return [here, *(s._replace(conditions=(passed, *s.conditions)) for s in above)]

    def _whole_operands(self, node: int) -> list[int]:
        """Operands that are read element by element, from memory or from their own loop."""
        facts, graph = self._facts, self._graph
        return [
            operand
            for operand in graph.operands[node]
            if facts.has_order[operand]
            and graph.opcode[operand] not in MADE_UP
            and (self._is_passed(node) or graph.shapes[operand] == graph.shapes[node])
        ]
