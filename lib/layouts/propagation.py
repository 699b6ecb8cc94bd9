"""What the layouts of a configuration come to in the program around them.

A configuration fixes layouts of some tensors; wherever two layouts meet, elements are moved. How
far a layout reaches is the compiler's: on TPUs (and GPUs) it spreads to what lies around
(:mod:`lib.layouts.spreading`); XLA for CPUs holds everything else to the program's own order, so
that data return to it at once (:mod:`lib.layouts.returning`). Either is done for all
configurations of a batch at once, without compiling anything. The moves and states that come of
it (:mod:`lib.layouts.found`) become features in :mod:`lib.layouts.rows`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lib.layouts.found import NONE, Found, Numbered
from lib.layouts.loops import Loops
from lib.layouts.operands import Slots, slots_of
from lib.layouts.orders import Order, squeezed
from lib.layouts.program import Program
from lib.layouts.returning import Returning
from lib.layouts.run import Run
from lib.layouts.spreading import Spreading
from lib.tpugraphs.opcodes import ID_OF_NAME

TRANSPOSE = ID_OF_NAME["transpose"]
RUNS: dict[str, type[Run]] = {"spread": Spreading, "return": Returning}


class Propagation:
    """What layouts come to in one program.

    Args:
        program: the program.
        reach: how far a layout reaches, a key of ``RUNS``.

    Orders are numbers here, positions in ``orders``. Under b configurations a node's order is a
    (b,) array, or a (1,) array if it is the same under all.

    Attributes:
        slots: of each configurable node.
        moves: ``(tensor, from, to, reason, node that it happens for)`` by their numbers.
        states: ``(node, order before, order)`` by their numbers.
        site: the place of each configurable node among the program's ``sites``.
        ranks: (k, 3) of the slots' tensors, -1 where there is none.
        turned: the permutations of transposes.
        in_order: the nodes, operands before their users.
        loops: what is computed in one loop with what reads it.
        plain: (n,) the number of the order that each output has in the program as it stands.
    """

    def __init__(self, program: Program, reach: str):
        self.program, self._reach = program, RUNS[reach]
        self.slots: list[Slots] = [slots_of(program, int(node)) for node in program.sites]
        self.orders, self.moves, self.states = Numbered(), Numbered(), Numbered()
        self.site = {int(node): place for place, node in enumerate(program.sites)}
        ranks = [[self.rank(t) if t >= 0 else -1 for t in one.tensors] for one in self.slots]
        self.ranks = np.array(ranks).reshape(-1, 3)  # of the slots' tensors
        self._memory = program.bytes
        self.turned = _transposes(program)
        self.in_order = _operands_first(program)
        self.loops = Loops(self)
        self._maps: dict[tuple, int] = {}
        self.plain = [self.orders.number(program.plain(n)) for n in range(len(program.opcode))]

    def numbers_of(self, digits: np.ndarray) -> np.ndarray:
        """Numbers of layouts as a configuration has them.

        Args:
            digits: (..., 6) integers, minor to major, -1 padded.

        Returns:
            (...) int64, ``NONE`` where no digit is set or they are no permutation.
        """
        flat, places = np.unique(digits.reshape(-1, digits.shape[-1]), axis=0, return_inverse=True)
        numbers = []
        for row in flat.tolist():
            order = tuple(d for d in row if d >= 0)
            known = order and sorted(order) == list(range(len(order)))
            numbers.append(self.orders.number(order) if known else NONE)
        return np.array(numbers, np.int64)[places.reshape(digits.shape[:-1])]

    def run(self, layouts: np.ndarray) -> Found:
        """What the layouts of some configurations come to.

        Args:
            layouts: (b, k, 3) int64 of :meth:`numbers_of`: output, input and kernel of each
                configurable node, in the order of the program's ``sites``.
        """
        return self._reach(self, layouts).found()

    def rank(self, node: int) -> int:
        """Of a node's output."""
        return len(self.program.shapes[node])

    def moves_data(self, node: int) -> bool:
        """Whether a node's output has an order at all, and any bytes."""
        return self.rank(node) >= 2 and self._memory[node] > 0

    def mapped(self, what: str, node: int, number: int, find: Callable[[Order], Order]) -> int:
        """The number of ``find(order)``, remembered by (what, node, order)."""
        key = (what, node, number)
        if key not in self._maps:
            self._maps[key] = self.orders.number(find(self.orders.items[number]))
        return self._maps[key]

    def same_in_memory(self, tensor: int, one: int, other: int) -> bool:
        """Whether two orders of a tensor put every element at the same place."""
        shape = self.program.shapes[tensor]
        return squeezed(self.orders.items[one], shape) == squeezed(self.orders.items[other], shape)


def _transposes(program: Program) -> dict[int, tuple[int, ...]]:
    """Permutations of the transposes whose one operand is there (pruning may have taken it)."""
    found = {}
    for node in np.flatnonzero(program.opcode == TRANSPOSE).tolist():
        permutation, operands = program.permutation(node), program.operands[node]
        same = len(operands) == 1 and len(program.shapes[operands[0]]) == len(permutation)
        if same and sorted(permutation) == list(range(len(permutation))):
            found[node] = permutation
    return found


def _operands_first(program: Program) -> list[int]:
    """The nodes, operands before their users; those on a cycle are left out."""
    waiting = [len(operands) for operands in program.operands]
    ready = [node for node, count in enumerate(waiting) if count == 0][::-1]
    found = []
    while ready:
        node = ready.pop()
        found.append(node)
        for user in program.users[node]:
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    return found
