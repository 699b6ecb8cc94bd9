"""Operations that a library call computes more than once, as numbers that a network can learn from.

What the repetition costs is about proportional to the work that is repeated, which is known; the
features say what kind of work it is, and how much of it there is at a time.
"""

from __future__ import annotations

from math import log2

from lib.compiler.cpu.effects import RepeatedOperation
from lib.compiler.cpu.library import REDUCE, REDUCE_WINDOW, Library
from lib.compiler.cpu.moves import SCALE, logarithm, named
from lib.compiler.cpu.nodes import BYTES_SCALE
from lib.tpugraphs.opcodes import CONVOLUTION, DOT

KINDS = {"convolution": CONVOLUTION, "dot": DOT, "reduce": REDUCE, "window": REDUCE_WINDOW}
WORK = 64.0  # multiplications for an element that count like the bytes of it

REPEATED_FEATURES = (
    *named("repeated", ("times", "work", "bytes", "features", "window", "groups")),
    *named("repeated", (f"is_{kind}" for kind in KINDS)),
)


def repeated_features(library: Library, operation: RepeatedOperation) -> list[float]:
    """``REPEATED_FEATURES`` of a repeated operation, logarithms but for its kind."""
    graph, node = library.graph, operation.node
    opcode = int(graph.opcode[node])
    return [
        log2(operation.times) / SCALE,
        log2(library.work(node)) / SCALE,
        log2(max(1.0, graph.bytes[node])) / BYTES_SCALE,
        logarithm(graph.shapes[node][-1]),
        logarithm(graph.feature(node, "window_size_product")),
        logarithm(graph.feature(node, "feature_group_count")),
        *(float(opcode == kind) for kind in KINDS.values()),
    ]


def repeated_work(library: Library, operation: RepeatedOperation) -> float:
    """What is computed too often, in bytes of the operation's output that count as much."""
    once = float(library.graph.bytes[operation.node]) * library.work(operation.node) / WORK
    return once * (operation.times - 1)
