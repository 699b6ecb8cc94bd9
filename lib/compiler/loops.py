"""Which operations a compiler fuses into one loop, and what such a loop reads.

Elementwise operations and transposes are not worth a loop of their own: each is computed inside
the loop of whoever reads it, again for every reader. So the loop that writes a tensor reads what
lies in memory above it, in the order in which it lies there, and nothing in between is ever
written. (XLA's loop fusion; an operation that it would rather keep than repeat is treated alike:
to keep it made rankings no better.)
"""

from __future__ import annotations

from functools import cached_property

from lib.compiler.chains import is_elementwise
from lib.compiler.facts import ProgramFacts
from lib.tpugraphs.opcodes import ID_OF_NAME

# Made up inside the loop that reads them; nothing is read from memory for them.
MADE_UP = tuple(ID_OF_NAME[name] for name in ("broadcast", "iota", "constant"))
# Operations that write in any order at the same cost.
ANY_ORDER = (*MADE_UP, ID_OF_NAME["reduce"], ID_OF_NAME["gather"])
MOST_SOURCES = 8  # of a loop; more are left out

Source = tuple[int, tuple[int, ...]]  # a tensor in memory, the transposes from it to the loop's end


class Loops:
    """The fused loops of one program, each named by the node that it ends in."""

    def __init__(self, facts: ProgramFacts):
        self._facts, self._graph = facts, facts.graph
        self._sources: dict[int, list[Source]] = {}

    def fuses(self, node: int) -> bool:
        """Whether a node is computed in a loop that goes over its output's elements."""
        facts = self._facts
        if node in facts.place or not facts.has_order[node]:
            return False
        return node in facts.transposes or is_elementwise(self._graph, node)

    @cached_property
    def affected(self) -> list[int]:
        """Nodes whose loops a configuration can change, operands before their users: those that
        read or are read by what it can give another order. All others cost the same under all."""
        place, graph = self._facts.place, self._graph
        affected = []
        for node in filter(self.fuses, self._facts.operands_first):
            sources = self.sources(node)  # of operands first, so that none has to go down a chain
            reads = any(t in place or graph.opcode[t] in ANY_ORDER for t, _ in sources)
            if reads or any(user in place for user in graph.users[node]):
                affected.append(node)
        return affected

    def sources(self, node: int) -> list[Source]:
        """What the loop that ends in a node reads, each once; operands' loops are part of it."""
        if node not in self._sources:
            sources: dict[Source, None] = {}
            transposed = (node,) if node in self._facts.transposes else ()
            for operand in self._whole_operands(node):
                above = self.sources(operand) if self.fuses(operand) else [(operand, ())]
                sources |= dict.fromkeys((tensor, before + transposed) for tensor, before in above)
            self._sources[node] = list(sources)[:MOST_SOURCES]
        return self._sources[node]

    def _whole_operands(self, node: int) -> list[int]:
        """Operands that are read element by element, from memory or from their own loop."""
        facts, graph = self._facts, self._graph
        return [
            operand
            for operand in graph.operands[node]
            if facts.has_order[operand]
            and graph.opcode[operand] not in MADE_UP
            and (node in facts.transposes or graph.shapes[operand] == graph.shapes[node])
        ]
