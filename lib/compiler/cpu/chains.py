"""Elementwise operations that are computed while a tensor is read or written.

A compiler runs elementwise operations in one loop with the copy before or after them. A loop that
reads with a stride computes one element at a time, so each operation makes the copy slower, and
functions like the exponential do so most.
"""

from __future__ import annotations

import numpy as np

from lib.compiler.graph import TensorGraph
from lib.tpugraphs.opcodes import ID_OF_NAME

FUNCTION_NAMES = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "logistic", "power",
    "rsqrt", "sqrt", "sine", "cosine", "divide",
)  # fmt: skip
NOT_ELEMENTWISE_NAMES = (  # some of them have a computation of their own
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
    """Return whether a node computes each element from those at the same place."""
    return int(graph.opcode[node]) not in NOT_ELEMENTWISE and len(graph.operands[node]) > 0


class Chains:
    """Elementwise operations that read one another, counted from any node up or down.

    Attributes:
        around: features that copies share, by the tensor, its reader and the reason.
    """

    def __init__(self, graph: TensorGraph):
        self.graph = graph
        self.around: dict[tuple[int, int, int], np.ndarray] = {}
        self._known: dict[tuple[int, bool], Counts] = {}

    def counts(self, node: int, up: bool) -> Counts:
        """Return the counts of the chain above or below a node, and remember them."""
        if (node, up) in self._known:
            return self._known[node, up]
        if not is_elementwise(self.graph, node):
            return 0, 0
        following = self.graph.operands if up else self.graph.users
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
        self._known[node, up] = functions, operations
        return functions, operations
