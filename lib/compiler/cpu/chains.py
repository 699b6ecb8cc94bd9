"""What is computed while a tensor is read or written.

A compiler runs elementwise operations in one loop with the copy that they lead to or come from.
A loop that reads in jumps also computes one element at a time, so that a copy costs more the more
is computed in it, and functions like the exponential most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lib.compiler.graph import TensorGraph
from lib.tpugraphs.opcodes import ID_OF_NAME

FUNCTION_NAMES = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "logistic", "power",
    "rsqrt", "sqrt", "sine", "cosine", "divide",
)  # fmt: skip
NOT_ELEMENTWISE_NAMES = (  # some of them stand for a computation of their own
    "convolution", "dot", "reshape", "parameter", "reduce", "reduce-window", "select-and-scatter",
    "concatenate", "pad", "slice", "dynamic-slice", "dynamic-update-slice", "gather", "scatter",
    "reverse", "broadcast", "transpose", "tuple", "get-tuple-element", "while", "call",
    "conditional", "custom-call", "sort", "fft", "rng", "infeed", "outfeed", "cholesky",
    "triangular-solve",
)  # fmt: skip
FUNCTIONS = frozenset(ID_OF_NAME[name] for name in FUNCTION_NAMES)
NOT_ELEMENTWISE = frozenset(ID_OF_NAME[name] for name in NOT_ELEMENTWISE_NAMES)
MOST = 64  # operations of a chain that are counted
SMALLEST_SHARE = 0.5  # of the first output's bytes that a chain's other outputs have at least

Counts = tuple[int, int]  # of functions, of all operations


def is_elementwise(graph: TensorGraph, node: int) -> bool:
    """Whether a node computes each element from those at the same place."""
    return int(graph.opcode[node]) not in NOT_ELEMENTWISE and len(graph.operands[node]) > 0


class Chains:
    """Elementwise operations that read one another, counted from any node up or down.

    Attributes:
        around: what is known of copies of a tensor, by the tensor, its reader and the reason.
    """

    def __init__(self, graph: TensorGraph):
        self.graph = graph
        self.around: dict[tuple[int, int, int], np.ndarray] = {}
        self._known: dict[tuple[int, bool], Counts] = {}

    def above(self, node: int) -> Counts:
        """Counts of the chain that ends in a node; zeros if it is not elementwise."""
        return self._counts(node, True)

    def below(self, node: int) -> Counts:
        """Counts of the chain that begins with a node; zeros if it is not elementwise."""
        return self._counts(node, False)

    def _counts(self, node: int, up: bool) -> Counts:
        if (node, up) not in self._known:
            following = self.graph.operands if up else self.graph.users
            self._known[node, up] = self._count(node, following)
        return self._known[node, up]

    def _count(self, node: int, following: Sequence[Sequence[int]]) -> Counts:
        if not is_elementwise(self.graph, node):
            return 0, 0
        least = SMALLEST_SHARE * self.graph.bytes[node]
        met, waiting = {node}, [node]
        functions = operations = 0
        while waiting and operations < MOST:
            current = waiting.pop()
            operations += 1
            functions += int(self.graph.opcode[current]) in FUNCTIONS
            for neighbour in following[current]:
                large = self.graph.bytes[neighbour] >= least
                if neighbour not in met and large and is_elementwise(self.graph, neighbour):
                    met.add(neighbour)
                    waiting.append(neighbour)
        return functions, operations
