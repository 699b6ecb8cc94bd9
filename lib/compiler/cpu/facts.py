"""Facts of a program that layout propagation reads and that no configuration changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.compiler.graph import TensorGraph
from lib.compiler.operands import OPERAND_ROLES, ConstrainedTensors, constrained_tensors
from lib.tpugraphs.opcodes import ID_OF_NAME

TRANSPOSE = ID_OF_NAME["transpose"]
SMALLEST_RANK = 2  # of a tensor whose elements can lie in more than one order


@dataclass(frozen=True, eq=False)
class ProgramFacts:
    """What is known of a program of n nodes, k of them configurable.

    Attributes:
        graph: the program.
        constrained: the tensors that each configurable node's layouts are about.
        place: of each configurable node, its position in both.
        has_order: of each node, whether its output has an order at all, and any bytes.
        transposes: the permutation of each transpose.
        operands_first: the nodes, operands before their users; those on a cycle are left out.
    """

    graph: TensorGraph
    constrained: list[ConstrainedTensors]
    place: dict[int, int]
    has_order: list[bool]
    transposes: dict[int, tuple[int, ...]]
    operands_first: list[int]

    @classmethod
    def of(cls, graph: TensorGraph) -> ProgramFacts:
        """The facts of a program."""
        nodes = graph.configurable.tolist()
        constrained = [constrained_tensors(graph, node) for node in nodes]
        sized = (graph.bytes > 0).tolist()
        return cls(
            graph=graph,
            constrained=constrained,
            place={node: place for place, node in enumerate(nodes)},
            has_order=[graph.rank(n) >= SMALLEST_RANK and sized[n] for n in range(len(sized))],
            transposes=_transposes(graph),
            operands_first=_operands_first(graph),
        )

    def roles(self, user: int, node: int) -> list[int]:
        """The roles, of input and kernel, that a node's output has for a user: none if that is
        not configurable."""
        if user not in self.place:
            return []
        tensors = self.constrained[self.place[user]].tensors
        return [role for role in OPERAND_ROLES if tensors[role] == node]


def _transposes(graph: TensorGraph) -> dict[int, tuple[int, ...]]:
    """Permutations of the transposes whose one operand is there (pruning may have taken it)."""
    permutations = {}
    for node in np.flatnonzero(graph.opcode == TRANSPOSE).tolist():
        permutation, operands = graph.permutation(node), graph.operands[node]
        same_rank = len(operands) == 1 and graph.rank(operands[0]) == len(permutation)
        if same_rank and sorted(permutation) == list(range(len(permutation))):
            permutations[node] = permutation
    return permutations


def _operands_first(graph: TensorGraph) -> list[int]:
    waiting = [len(operands) for operands in graph.operands]
    ready = [node for node, count in enumerate(waiting) if count == 0][::-1]
    ordered = []
    while ready:
        node = ready.pop()
        ordered.append(node)
        for user in graph.users[node]:
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    return ordered
