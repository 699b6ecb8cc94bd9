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

from lib.collect.xla.hlo import read_module, site_positions
from lib.collect.xla.kernels import Kernel, kernels_of
from lib.compiler.cpu.tables import ProgramTables
from lib.compiler.graph import TensorGraph
from lib.tpugraphs.encoding import encode_module
from lib.tpugraphs.opcodes import NAME_OF_ID
from tests.bench.xla import arguments, compiled_at_random, program_bench

COMPUTED = re.compile(r"= \w+\[([\d,]*)\]\S* (convolution|dot|reduce|reduce-window)\(")
PRODUCTS = ("convolution", "dot")
Call = tuple[tuple[str, int], ...]  # the opcode and the elements of each operation, sorted


def main() -> None:
    """Compile, compare and print."""
    args = arguments(__doc__, 8, "of random configurations")
    bench = program_bench("tests.bench.calls", args.program, args.core)
    rng = np.random.default_rng(0)
    compiled = compiled_at_random(bench, args.count, rng)
    found = [called(kernels_of(one.executable.as_text())) for one in compiled]
    ours = foretold(bench, np.array([one.configuration for one in compiled]))
    both = sum((a & b).total() for a, b in zip(found, ours, strict=True))
    theirs, mine = (sum(one.total() for one in each) for each in (found, ours))
    print(
        f"{args.program}: {len(compiled)} configurations, {theirs} calls of several operations; "
        f"{mine} foretold, {both} of them as they are"
    )


def called(kernels: dict[str, Kernel]) -> Counter[Call]:
    """The calls of an optimized program."""
    calls = (kernel for kernel in kernels.values() if kernel.kind == "library call")
    return _counted(
        list(map(_operation, filter(None, map(COMPUTED.search, c.body)))) for c in calls
    )


def _operation(found: re.Match[str]) -> tuple[str, int]:
    return found[2], prod(int(size) for size in found[1].split(",") if size)


def foretold(bench, configurations: np.ndarray) -> list[Counter[Call]]:
    """The calls that we think a program's configurations, (c, s, 3, 6), have."""
    module = read_module(bench.module)
    sites = bench.traced.sites
    nodes = site_positions(module, [site.opcode for site in sites], np.array(bench.ranks))
    graph, order = encode_module(module, -1), np.argsort(nodes)
    edges = graph.edge_index
    tensors = TensorGraph.made_of(graph.node_feat, graph.node_opcode, edges, nodes[order])
    tables = ProgramTables.of(tensors)
    layouts = tables.completion(tables.orders.numbers_of(configurations[:, order]))
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
