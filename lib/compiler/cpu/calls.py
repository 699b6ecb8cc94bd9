"""Library calls: groups of operations that XLA for CPUs hands to a library together.

XLA begins a call with a reduction and adds operations that the library supports: an operand that
has no other reader, and the reader of the result if it is the only one; and so on from these, until
the call is large. Dots and convolutions that remain are calls of their own. A configured layout
ends a call, as nothing is fused across it.

That can be a gain, as the library may compute parts of one call again and again
(:mod:`lib.compiler.cpu.nests`). In one drawn network a call of two convolutions took 5.0 ms, while
two calls take 1.6 ms: a configuration that separates them is faster than the compiler's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lib.compiler.cpu.effects import RepeatedOperation
from lib.compiler.cpu.facts import ProgramFacts
from lib.compiler.cpu.library import PRODUCTS, REDUCTIONS, Library
from lib.compiler.cpu.nests import LoopNests
from lib.compiler.operands import OPERAND_ROLES, OUTPUT

LARGEST = 100  # instructions, with those that it reads, after which a call takes no more
MOST_REACHED = 3 * LARGEST  # groups: some of them add no instruction
NO_CALL = -1
SMALLEST_CALL = 2  # products and reductions: one of them can be repeated for another
MOST_KNOWN = 1 << 14  # calls of a program that are remembered
ONCE, PLACES = 1.01, 2  # an operation computed less often is not repeated; digits of times

Edge = tuple[int, int]  # an operand, and a node that reads it


class Group(NamedTuple):
    """Nodes that are in the same call under all configurations: a chain to its last node.

    Attributes:
        operands: groups that it reads, with the edge.
        users: groups that read its last node, with the edge; ``None`` if other nodes read it too.
        instructions: the number of instructions that it adds to a call.
    """

    operands: list[tuple[int, Edge]]
    users: list[tuple[int, Edge]] | None
    instructions: int


class LibraryCalls:
    """The library calls of one program."""

    def __init__(self, facts: ProgramFacts):
        self._facts, self._graph = facts, facts.graph
        self._known: dict[bytes, list[RepeatedOperation]] = {}

    @cached_property
    def library(self) -> Library:
        """Operations that the library takes, worked out when they are needed."""
        return Library(self._facts)

    def repeated(self, layouts: np.ndarray) -> Iterator[tuple[np.ndarray, list[RepeatedOperation]]]:
        """Yield the products and reductions that calls compute more than once.

        Args:
            layouts: (b, k, 3) configured layouts, negative if there is none.

        Yields:
            The positions of the configurations that have a call, and its repeated operations.
        """
        for configurations, groups in self._calls(layouts):
            key = groups.tobytes()
            operations = self._known.get(key)
            if operations is None:
                nodes = [n for group in np.sort(groups).tolist() for n in self._members[group]]
                computes = self.library.computes
                counted = sum(map(computes, nodes)) >= SMALLEST_CALL
                times = self._nests.times(nodes).items() if counted else ()
                operations = [
                    RepeatedOperation(node, round(count, PLACES))
                    for node, count in times
                    if count > ONCE and computes(node)
                ]
                if len(self._known) < MOST_KNOWN:
                    self._known[key] = operations
            if operations:
                yield configurations, operations

    def _calls(self, layouts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the positions of the configurations that have a call, and its groups.

        Calls that cannot hold a product are left out.
        """
        if not self._starters:
            return
        grown = self._grown(self._cut(layouts), len(layouts))
        for number, (start, reached) in enumerate(self._starters):
            groups = np.array([start, *reached])
            inside = grown[groups] == number
            packed = np.ascontiguousarray(np.packbits(inside, axis=0).T)
            keys = packed.view(f"V{packed.shape[1]}").ravel()
            _, first, places = np.unique(keys, return_index=True, return_inverse=True)
            for which, configuration in enumerate(first):
                if inside[0, configuration]:  # the call begins here
                    yield np.flatnonzero(places == which), groups[inside[:, configuration]]

    @cached_property
    def _nests(self) -> LoopNests:
        return LoopNests(self.library)

    @cached_property
    def _cuts(self) -> dict[Edge, list[tuple[int, int]]]:
        """Layouts, (place, role), that end a call between a node and its reader."""
        cuts: dict[Edge, list[tuple[int, int]]] = {}
        for node, place in self._facts.place.items():
            for user in self._graph.users[node]:
                cuts.setdefault((node, user), []).append((place, OUTPUT))
            for role in OPERAND_ROLES:
                tensor = self._facts.constrained[place].tensors[role]
                if tensor >= 0:
                    cuts.setdefault((tensor, node), []).append((place, role))
        return cuts

    def _cut(self, layouts: np.ndarray) -> dict[Edge, np.ndarray]:
        """Return the edges that some configuration cuts, and the configurations that do, (b,)."""
        configured = layouts >= 0
        some = configured.any(axis=0)
        edges = (edge for group in self._groups for _, edge in group.operands)
        cut = {}
        for edge in edges:
            cutting = [
                configured[:, place, role]
                for place, role in self._cuts.get(edge, ())
                if some[place, role]
            ]
            if cutting:
                cut[edge] = np.logical_or.reduce(cutting)
        return cut

    @cached_property
    def _group_of(self) -> list[int]:
        """Group of each node, -1 for one that the library does not take."""
        graph, library = self._graph, self.library
        group, count = [-1] * len(graph.opcode), 0
        for node in reversed(self._facts.operands_first):
            if not library.takes[node]:
                continue
            users = graph.users[node]
            follows = len(users) == 1 and library.takes[users[0]]
            if follows and (node, users[0]) not in self._cuts and library.passes(node, users[0]):
                group[node] = group[users[0]]
            else:
                group[node], count = count, count + 1
        return group

    @cached_property
    def _members(self) -> list[list[int]]:
        """Nodes of each group."""
        nodes: list[list[int]] = [[] for _ in range(max(self._group_of, default=-1) + 1)]
        for node, group in enumerate(self._group_of):
            if group >= 0:
                nodes[group].append(node)
        return nodes

    @cached_property
    def _groups(self) -> list[Group]:
        """Groups by their numbers."""
        graph, library, group = self._graph, self.library, self._group_of
        groups = []
        for number, members in enumerate(self._members):
            operands, inputs = [], set()
            for node in members:
                for operand in graph.operands[node]:
                    if group[operand] == number:
                        continue
                    if group[operand] < 0 or not library.passes(operand, node):
                        inputs.add(operand)
                    else:
                        operands.append((group[operand], (operand, node)))
            shown = sum(library.computes(node) or not library.is_small(node) for node in members)
            last = next(n for n in members if all(group[u] != number for u in graph.users[n]))
            users = graph.users[last]
            inside = all(group[user] >= 0 and library.passes(last, user) for user in users)
            edges = [(group[user], (last, user)) for user in users] if inside else None
            groups.append(Group(operands, edges, shown + len(inputs)))
        return groups

    @cached_property
    def _starters(self) -> list[tuple[int, list[int]]]:
        """Groups of reductions that begin calls, and the groups that each may take, nearest first.

        Readers come before their operands. Calls that cannot hold a product are left out.
        """
        opcode, takes = self._graph.opcode, self.library.takes
        products = {
            self._group_of[node]
            for node in self._facts.place
            if takes[node] and opcode[node] in PRODUCTS
        }
        starters: dict[int, list[int]] = {}
        for node in reversed(self._facts.operands_first):
            group = self._group_of[node]
            if group < 0 or group in starters or opcode[node] not in REDUCTIONS:
                continue
            reached = self._reached(group)
            if group in products or not products.isdisjoint(reached):
                starters[group] = reached
        return list(starters.items())

    def _reached(self, start: int) -> list[int]:
        """Return groups that a call may grow to, nearest first, without the start.

        Groups further away than a call can have instructions are left out, so that the time does
        not grow with the program.
        """
        met, waiting = {start: None}, deque([start])
        while waiting and len(met) < MOST_REACHED:
            group = self._groups[waiting.popleft()]
            users = group.users if group.users is not None and len(group.users) == 1 else []
            for neighbour, _ in (*group.operands, *users):
                if neighbour not in met:
                    met[neighbour] = None
                    waiting.append(neighbour)
        return list(met)[1:]

    def _grown(self, cut: dict[Edge, np.ndarray], count: int) -> np.ndarray:
        """Return the call that each group is in, by its starter's number, (groups, b) int32."""
        calls = np.full((len(self._groups), count), NO_CALL, np.int32)
        inside = np.zeros((len(self._groups), count), bool)
        for number, (start, reached) in enumerate(self._starters):
            inside[start] = calls[start] == NO_CALL
            size = np.full(count, self._groups[start].instructions)
            changed = bool(inside[start].any())
            while changed:
                changed = False
                for group in reached:
                    new = self._taken(group, inside, cut)
                    if new is None:
                        continue
                    new &= (size < LARGEST) & ~inside[group] & (calls[group] == NO_CALL)
                    if new.any():
                        inside[group] |= new
                        size += new * self._groups[group].instructions
                        changed = True
            for group in (start, *reached):
                calls[group][inside[group]] = number
                inside[group] = False
        return calls

    def _taken(
        self, group: int, inside: np.ndarray, cut: dict[Edge, np.ndarray]
    ) -> np.ndarray | None:
        """Return the configurations in which a call takes a group, (b,); ``None`` for none.

        ``inside``, (groups, b), holds the groups that it has so far.
        """
        operands, users, _ = self._groups[group]
        taken = None
        if users:
            taken = np.logical_and.reduce([_through(edge, inside[u], cut) for u, edge in users])
        for operand, edge in operands:
            above = self._groups[operand].users
            if above is not None and len(above) == 1:
                down = _through(edge, inside[operand], cut)
                taken = down if taken is None else taken | down
        return taken


def _through(edge: Edge, inside: np.ndarray, cut: dict[Edge, np.ndarray]) -> np.ndarray:
    """Return the configurations with one end of an edge in a call, and no cut after it, (b,)."""
    return inside & ~cut[edge] if edge in cut else inside.copy()
