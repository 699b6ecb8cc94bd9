"""What a network takes, measured: end to end, and each of its programs alone.

In the environment that has TVM, started by :mod:`tests.bench.latency`::

    python -m tests.bench.latency_tvm NETWORK BATCH DEVICE network.npz estimate.json --core 1

prints JSON: ``seconds`` of the whole network in TVM's virtual machine, and of each task's program.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path

import numpy as np
from tvm.ir import IRModule

from lib.collect.tvm import compiler
from lib.collect.tvm.asked import named
from lib.collect.tvm.graph import Graph, graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.library import compiled, runner
from lib.collect.tvm.running import Batch, clock_on, fastest, time_programs
from lib.files.artifacts import read_json


def chosen_programs(graph: Graph, npz: Path, estimate: Path) -> list[IRModule]:
    """The program that each task was predicted to run fastest with, in the order of the tasks."""
    with np.load(npz, allow_pickle=False) as file:
        traces = json.loads(zlib.decompress(file["traces"].tobytes()))
        tasks = [one["task"] for one in json.loads(file["about"].item())["tasks"]]
        places = {
            (tasks[int(task)], str(schedule)): k
            for k, (task, schedule) in enumerate(zip(file["owner"], file["hash"], strict=True))
        }
    wanted = {one["task"]: one["schedule"] for one in read_json(estimate)["tasks"]}
    found = []
    for task in graph.tasks:
        name = compiler.hash_of(task)
        schedule = wanted.get(name)  # none of what stores constants alone
        trace = traces[places[name, schedule]] if schedule else ""
        found.append(compiler.rebuilt(task, trace).mod if trace else task)
    return found


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


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("batch", type=int)
    parser.add_argument("device")
    parser.add_argument("npz", type=Path)
    parser.add_argument("estimate", type=Path)
    parser.add_argument("--core", type=int, help="a quiet core; without, anywhere")
    args = parser.parse_args()
    imports = imported(named(args.network, args.batch))
    graph = graph_of(imports)
    programs = chosen_programs(graph, args.npz, args.estimate)
    tasks = [compiler.hash_of(one) for one in graph.tasks]
    clock = clock_on(args.core)
    alone = {
        task: float(time_programs(Batch(task, [one], [args.device], clock))[0][0])
        for task, one in zip(tasks, programs, strict=True)
    }
    tuned = whole(imports.module, graph, programs)
    library = compiled(tuned, imports.values, args.device)
    seconds = fastest({"": runner(library, imports.inputs)}, clock)[""]
    found = {"seconds": seconds, "programs": alone}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
