"""Which operations a compiler runs in one loop, and what such a loop reads.

Elementwise operations and transposes are not worth a loop of their own: each is computed inside
the loop of whoever reads it, again for every reader. So the loop that writes a tensor reads what
lies in memory above it, in the order in which it lies there, and nothing in between is ever
written. (XLA's loop fusion; an operation that it would rather keep than repeat is not told apart:
doing so made rankings no better.)
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from lib.layouts.chains import is_elementwise
from lib.tpugraphs.opcodes import ID_OF_NAME

if TYPE_CHECKING:
    from lib.layouts.propagation import Propagation

MADE_UP = tuple(ID_OF_NAME[name] for name in ("broadcast", "iota", "constant"))  # on the way
ANY_ORDER = (*MADE_UP, *(ID_OF_NAME[name] for name in ("reduce", "gather")))  # to write in
MOST_SOURCES = 8  # of a loop; more are left out

Source = tuple[int, tuple[int, ...]]  # a tensor in memory, the transposes from it to the loop's end


class Loops:
    """The loops of one program.

    Args:
        of: the program with its sites and transposes.
    """

    def __init__(self, of: Propagation):
        self._of = of
        self._known: dict[int, list[Source]] = {}

    def runs(self, node: int) -> bool:
        """Whether a node is computed in a loop that goes over its output's elements."""
        of = self._of
        if node in of.site or not of.moves_data(node):
            return False
        return node in of.turned or is_elementwise(of.program, node)

    @cached_property
    def changing(self) -> list[int]:
        """Nodes whose loops a configuration can change, operands before their users: those that
        read or are read by what it can give another order. All others cost the same under all."""
        site, opcode = self._of.site, self._of.program.opcode
        users = self._of.program.users
        found = []
        for node in filter(self.runs, self._of.in_order):
            sources = self.sources(node)  # of operands first, so that none has to go down a chain
            read = any(tensor in site or opcode[tensor] in ANY_ORDER for tensor, _ in sources)
            if read or any(user in site for user in users[node]):
                found.append(node)
        return found

    def sources(self, node: int) -> list[Source]:
        """What the loop that ends in a node reads, each once; operands' loops are part of it."""
        if node not in self._known:
            found: dict[Source, None] = {}
            for operand in self._whole_operands(node):
                turns = (node,) if node in self._of.turned else ()
                above = self.sources(operand) if self.runs(operand) else [(operand, ())]
                found |= dict.fromkeys((tensor, before + turns) for tensor, before in above)
            self._known[node] = list(found)[:MOST_SOURCES]
        return self._known[node]

    def _whole_operands(self, node: int) -> list[int]:
        """Operands that are read element by element, from memory or from their own loop."""
        of, program = self._of, self._of.program
        return [
            operand
            for operand in program.operands[node]
            if of.moves_data(operand)
            and program.opcode[operand] not in MADE_UP
            and (node in of.turned or program.shapes[operand] == program.shapes[node])
        ]
