"""Library calls: what XLA for CPUs hands to a library in one piece.

XLA begins a call with a reduction and takes into it whatever the library knows: what is read, where
nobody else reads it, and who reads the result, where that is a single one; and so on from there,
until the call is large. Dots and convolutions that are left are calls of their own. A configured
layout ends a call, as nothing is fused across it.

That can be a gain: of what is in one call the library may compute parts again and again
(:mod:`lib.compiler.cpu.nests`). In one drawn network a call of two convolutions took 5.0 ms, where
they take 1.6 ms apart, so that a configuration that parts them is faster than the compiler's own.
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

LARGEST = 100  # instructions of a call, what it reads among them, after which it takes no more
MOST_REACHED = 3 * LARGEST  # groups, some of which add no instruction
NO_CALL = -1
SMALLEST_CALL = 2  # products and reductions, so that one can be computed for another
MOST_KNOWN = 1 << 14  # calls of a program that are remembered
ONCE, PLACES = 1.01, 2  # times that an operation is computed, and their digits

Edge = tuple[int, int]  # an operand, and a node that reads it


class Group(NamedTuple):
    """Nodes that are in one call or in none, whatever is configured: a chain to its last one.

    Attributes:
        operands: groups that it reads, with the edge.
        users: groups that read its last node, with the edge; ``None`` if somebody else does.
        instructions: how many it adds to a call.
    """

    operands: list[tuple[int, Edge]]
    users: list[tuple[int, Edge]] | None
    instructions: int


class LibraryCalls:
    """The library calls of one program."""

    def __init__(self, facts: ProgramFacts):
        self._facts, self._graph = facts, facts.graph
        self._known: dict[tuple[int, bytes], list[RepeatedOperation]] = {}

    @cached_property
    def library(self) -> Library:
        """What it takes."""
        return Library(self._facts)

    def calls(self, layouts: np.ndarray) -> Iterator[tuple[np.ndarray, list[int]]]:
        """The nodes of each call, those of calls that could hold no product left out.

        Args:
            layouts: (b, k, 3) as configured, negative where nothing is.

        Yields:
            The nodes of a call, and before them the positions of the configurations that have it.
        """
        for configurations, _, groups in self._calls(layouts):
            yield configurations, self._nodes(groups)

    def repeated(self, layouts: np.ndarray) -> Iterator[tuple[np.ndarray, list[RepeatedOperation]]]:
        """What (b, k, 3) layouts make the library compute more than once, a call at a time: the
        positions of the configurations that have it, and its operations."""
        for configurations, key, groups in self._calls(layouts):
            operations = self._known.get(key)
            if operations is None:
                operations = self._of_call(self._nodes(groups))
                if len(self._known) < MOST_KNOWN:
                    self._known[key] = operations
            if operations:
                yield configurations, operations

    def _calls(
        self, layouts: np.ndarray
    ) -> Iterator[tuple[np.ndarray, tuple[int, bytes], np.ndarray]]:
        """Configurations, what tells their call from others, and its groups."""
        if not self._starters:
            return
        grown = self._grown(self._cut(layouts), len(layouts))
        for number, (start, reached) in enumerate(self._starters):
            groups = np.array([start, *reached])
            inside = grown[groups] == number
            packed = np.ascontiguousarray(np.packbits(inside, axis=0).T)
            keys = packed.view(f"V{packed.shape[1]}").ravel()
            distinct, first, places = np.unique(keys, return_index=True, return_inverse=True)
            for which, (key, configuration) in enumerate(zip(distinct, first, strict=True)):
                if inside[0, configuration]:  # begun here
                    call_groups = groups[inside[:, configuration]]
                    yield np.flatnonzero(places == which), (number, key.tobytes()), call_groups

    def _nodes(self, groups: np.ndarray) -> list[int]:
        return [node for group in np.sort(groups).tolist() for node in self._members[group]]

    def _of_call(self, nodes: list[int]) -> list[RepeatedOperation]:
        """The products and reductions that a call computes more than once."""
        if sum(map(self.library.computes, nodes)) < SMALLEST_CALL:
            return []
        return [
            RepeatedOperation(node, round(times, PLACES))
            for node, times in self._nests.times(nodes).items()
            if times > ONCE and self.library.computes(node)
        ]

    @cached_property
    def _nests(self) -> LoopNests:
        return LoopNests(self.library)

    @cached_property
    def _cuts(self) -> dict[Edge, list[tuple[int, int]]]:
        """The layouts, (place, role), that end a call between a node and one that reads it."""
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
        """Under which configurations an edge is cut, (b,), those that any of them cuts."""
        configured = layouts >= 0
        some = configured.any(axis=0)
        cut = {}
        for edge in self._edges:
            cutting = [
                configured[:, place, role] for place, role in self._cuts[edge] if some[place, role]
            ]
            if cutting:
                cut[edge] = np.logical_or.reduce(cutting)
        return cut

    @cached_property
    def _edges(self) -> list[Edge]:
        """Edges between groups that a configuration can cut."""
        edges = (edge for group in self._groups for _, edge in group.operands)
        return [edge for edge in edges if edge in self._cuts]

    @cached_property
    def _group_of(self) -> list[int]:
        """The group of each node, -1 of what the library does not take."""
        graph, library = self._graph, self.library
        group, count = [-1] * len(graph.opcode), 0
        for node in reversed(self._facts.operands_first):
            if not library.takes[node]:
                continue
            users = graph.users[node]
            follows = len(users) == 1 and library.takes[users[0]]
            if follows and self._never_parted(node, users[0]):
                group[node] = group[users[0]]
            else:
                group[node], count = count, count + 1
        return group

    def _never_parted(self, node: int, user: int) -> bool:
        return (node, user) not in self._cuts and self.library.passes(node, user)

    @cached_property
    def _members(self) -> list[list[int]]:
        """The nodes of each group."""
        nodes: list[list[int]] = [[] for _ in range(max(self._group_of, default=-1) + 1)]
        for node, group in enumerate(self._group_of):
            if group >= 0:
                nodes[group].append(node)
        return nodes

    @cached_property
    def _groups(self) -> list[Group]:
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
            groups.append(Group(operands, self._users_of(members), shown + len(inputs)))
        return groups

    def _users_of(self, nodes: list[int]) -> list[tuple[int, Edge]] | None:
        """Who reads a group: those who read its last node, which all other nodes lead to."""
        group = self._group_of
        last = next(n for n in nodes if all(group[u] != group[n] for u in self._graph.users[n]))
        users = self._graph.users[last]
        if all(group[user] >= 0 and self.library.passes(last, user) for user in users):
            return [(group[user], (last, user)) for user in users]
        return None

    @cached_property
    def _starters(self) -> list[tuple[int, list[int]]]:
        """Reductions that begin calls, those that are read by others last, by their groups; and
        what each may take, nearest first. Calls that could hold no product are left out."""
        products = {self._group_of[node] for node in self._facts.place if self._is_product(node)}
        starters: dict[int, list[int]] = {}
        for node in reversed(self._facts.operands_first):
            group = self._group_of[node]
            if group < 0 or group in starters or self._graph.opcode[node] not in REDUCTIONS:
                continue
            reached = self._reached(group)
            if group in products or not products.isdisjoint(reached):
                starters[group] = reached
        return list(starters.items())

    def _is_product(self, node: int) -> bool:
        return self.library.takes[node] and self._graph.opcode[node] in PRODUCTS

    def _reached(self, start: int) -> list[int]:
        """Groups that a call may grow to, nearest first, the start left out.

        Those further away than a call can have instructions are left out, so that this takes as
        long in a large program.
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
        """The call that each group is in, by its starter's number, (groups, b) int32."""
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
        """Where a call that holds what is ``inside`` takes a group, (b,); ``None``: nowhere."""
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
    """Where one end of an edge is in a call, and nothing parts it from the other, (b,)."""
    return inside & ~cut[edge] if edge in cut else inside.copy()
