"""Which operations XLA hands to its library in one call, and which we think it does.

    .venv-collect/bin/python -m tests.bench.calls resnet_basic.w32_d3_b2_r48.forward --count 8

Wants the collector's environment (`make collect` makes it); about a second a configuration. The
program is compiled under random configurations. A call counts if it holds a product and another
product or reduction; two calls are the same if these are of the same opcodes and sizes.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod

import numpy as np

from lib.collect.xla.kernels import Kernel, kernels_of
from lib.compiler.cpu.tables import ProgramTables
from lib.compiler.graph import TensorGraph
from lib.tpugraphs.encoding import encode_module
from lib.tpugraphs.opcodes import NAME_OF_ID
from tests.bench.xla import compiled_at_random

COMPUTED = re.compile(r"= \w+\[([\d,]*)\]\S* (convolution|dot|reduce|reduce-window)\(")
PRODUCTS = ("convolution", "dot")
Call = tuple[tuple[str, int], ...]  # the opcode and the elements of each operation, sorted


def main() -> None:
    """Compile, compare and print."""
    measurement = compiled_at_random("tests.bench.calls", __doc__, 8)
    compiled = measurement.compiled
    found = [called(kernels_of(one.executable.as_text())) for one in compiled]
    ours = predicted(measurement)
    both = sum((a & b).total() for a, b in zip(found, ours, strict=True))
    theirs, mine = (sum(one.total() for one in each) for each in (found, ours))
    print(
        f"{measurement.program.name}: {len(compiled)} configurations, {theirs} calls of several "
        f"operations; {mine} predicted, {both} of them right"
    )


def called(kernels: dict[str, Kernel]) -> Counter[Call]:
    """The calls of an optimized program."""
    calls = (kernel for kernel in kernels.values() if kernel.kind == "library call")
    return _counted(
        list(map(_operation, filter(None, map(COMPUTED.search, c.body)))) for c in calls
    )


def _operation(found: re.Match[str]) -> tuple[str, int]:
    return found[2], prod(int(size) for size in found[1].split(",") if size)


def predicted(measurement) -> list[Counter[Call]]:
    """The calls that we think a program's configurations have."""
    graph = encode_module(measurement.module, -1)
    configurations = np.array([one.configuration for one in measurement.compiled])
    edges = graph.edge_index
    tensors = TensorGraph.made_of(graph.node_feat, graph.node_opcode, edges, measurement.nodes)
    tables = ProgramTables.of(tensors)
    layouts = tables.completion(tables.orders.numbers_of(configurations))
    calls, library = tables.calls, tables.calls.library
    each: list[list[list[tuple[str, int]]]] = [[] for _ in configurations]
    for having, own in calls.calls(layouts):
        computed = [
            (NAME_OF_ID[int(tensors.opcode[node])], library.elements[node])
            for node in own
            if library.computes(node)
        ]
        for configuration in having.tolist():
            each[configuration].append(computed)
    return [_counted(own) for own in each]


def _counted(calls) -> Counter[Call]:
    large = (own for own in calls if len(own) > 1 and any(one[0] in PRODUCTS for one in own))
    return Counter(tuple(sorted(own)) for own in large)


if __name__ == "__main__":
    main()
