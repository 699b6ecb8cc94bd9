"""Facts of a program that layout propagation reads and that no configuration changes."""

from __future__ import annotations

import numpy as np

from lib.compiler.graph import TensorGraph
from lib.compiler.operands import OPERAND_ROLES, constrained_tensors
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.opcodes import ID_OF_NAME

DIMENSIONS = FEATURE_NAMES.index("dimensions_0")
TRANSPOSE = ID_OF_NAME["transpose"]
SMALLEST_RANK = 2  # a tensor of lower rank has one order only


class ProgramFacts:
    """Facts of a program of n nodes, k of them configurable.

    Attributes:
        graph: the program.
        constrained: the tensors that the layouts of each configurable node constrain.
        place: position of each configurable node among the configurable ones.
        has_order: for each node, whether its output has more than one order, and any bytes.
        transposes: the permutation of each transpose.
        operands_first: the nodes, operands before their users; those on a cycle are left out.
    """

    def __init__(self, graph: TensorGraph):
        nodes, sized = graph.configurable.tolist(), (graph.bytes > 0).tolist()
        self.graph = graph
        self.constrained = [constrained_tensors(graph, node) for node in nodes]
        self.place = {node: place for place, node in enumerate(nodes)}
        self.has_order = [graph.rank(n) >= SMALLEST_RANK and sized[n] for n in range(len(sized))]
        self.transposes = _transposes(graph)
        self.operands_first = _operands_first(graph)

    def roles(self, user: int, node: int) -> list[int]:
        """Return the roles, input or kernel, of a node's output for a user; none if the user is not
        configurable."""
        if user not in self.place:
            return []
        tensors = self.constrained[self.place[user]].tensors
        return [role for role in OPERAND_ROLES if tensors[role] == node]


def _transposes(graph: TensorGraph) -> dict[int, tuple[int, ...]]:
    """Return the permutations of transposes: the operand's dimension for each of the output's.

    Transposes whose operand was pruned are left out.
    """
    permutations = {}
    for node in np.flatnonzero(graph.opcode == TRANSPOSE).tolist():
        rank, operands = graph.rank(node), graph.operands[node]
        permutation = tuple(map(int, graph.features[node, DIMENSIONS : DIMENSIONS + rank]))
        same_rank = len(operands) == 1 and graph.rank(operands[0]) == rank
        if same_rank and sorted(permutation) == list(range(rank)):
            permutations[node] = permutation
    return permutations


def _operands_first(graph: TensorGraph) -> list[int]:
    """Return the nodes in topological order, without those on a cycle."""
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
