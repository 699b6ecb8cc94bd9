"""What a call costs in a network beyond its program timed alone: chains of layers, measured.

In the environment that has TVM, on a core that nothing else uses; some minutes::

    .venv-collect-programs/bin/python -m tests.bench.chains_tvm --core 1

A chain is ``--depth`` products with matrices of their own, each followed by a maximum with zero, so
that all calls run one program. Of a few random schedules the fastest is taken. Printed are the
seconds of the whole chain in TVM's virtual machine, those of its program times the depth, what is
left for a call, and that over the bytes of a call's matrix. A chain whose matrices fit into a
core's cache tells the gap between two calls, a larger one what it takes to read cold weights.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from tvm.ir import IRModule

from lib.collect.tvm.compiler import Sampler
from lib.collect.tvm.graph import Graph, graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.library import compiled, runner
from lib.collect.tvm.networks import Network
from lib.collect.tvm.running import Batch, clock_on, fastest, time_programs
from lib.files.terminal import table

WIDTHS, BATCHES, SCHEDULES = (32, 64, 128, 256, 512, 1024), (1, 16), 24


def whole(module: IRModule, graph: Graph, programs: list[IRModule]) -> IRModule:
    """The network with its programs under their schedules."""
    functions = {}
    for variable, function in module.functions.items():
        name = variable.name_hint
        if name in graph.functions:
            own = programs[graph.functions[name]]["main"]
            function = own.with_attr("global_symbol", name)
        functions[variable] = function
    return IRModule(functions)


def chain(width: int, depth: int, batch: int) -> Network:
    """The network."""
    layers = [torch.nn.Linear(width, width) for _ in range(depth)]
    both = [one for layer in layers for one in (layer, torch.nn.ReLU())]
    return Network("chain", lambda: (torch.nn.Sequential(*both), (torch.randn(batch, width),)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", type=int, required=True)
    parser.add_argument("--device", default="avx2")
    parser.add_argument("--depth", type=int, default=24)
    args = parser.parse_args()
    clock, rows = clock_on(args.core), []
    for batch in BATCHES:
        for width in WIDTHS:
            found = imported(chain(width, args.depth, batch))
            graph = graph_of(found)
            (task,), calls = graph.tasks, len(graph.calls)
            drawn = [task, *(one.module for one in Sampler(task, 0).distinct(SCHEDULES, set()))]
            seconds, _ = time_programs(Batch("0", drawn, [args.device], clock))
            best = int(np.nanargmin(seconds))
            tuned = whole(found.module, graph, [drawn[best]])
            library = compiled(tuned, found.values, args.device)
            took = fastest({"": runner(library, found.inputs)}, clock)[""]
            each, size = took / calls - seconds[best], 4 * width * width
            numbers = (size * calls / 1e6, 1e6 * took, 1e6 * seconds[best], 1e6 * each)
            shown = [*map(str, (batch, width)), *(f"{x:.2f}" for x in numbers)]
            rows.append([*shown, f"{size / each / 1e9:.1f}"])
            print(rows[-1], flush=True)
    heads = ["batch", "width", "MB of weights", "chain us", "program us", "left us", "GB/s"]
    print(table(rows, heads))


if __name__ == "__main__":
    main()
