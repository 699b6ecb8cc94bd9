"""What a network takes, measured: end to end, and each of its programs alone.

In the environment that has TVM, started by :mod:`tests.bench.latency`::

    python -m tests.bench.latency_tvm NETWORK BATCH DEVICE network.npz estimate.json --core 1

prints JSON: ``seconds`` of the whole network in TVM's virtual machine, and of each task's program.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import zlib
from pathlib import Path

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule

from lib.collect.quiet import TimingCore
from lib.collect.tvm import compiler
from lib.collect.tvm.extract import relax_module
from lib.collect.tvm.timing import Anywhere, Arena, Clock, Stopwatch, reference_program
from lib.collect.tvm.whole import Graph, graph_of, named
from lib.files.artifacts import read_json

VISITS = 10  # of the network, seconds apart; the fastest counts, as in the dataset
READING_SECONDS = 0.02
PAUSE_SECONDS = 0.5


def chosen_programs(graph: Graph, npz: Path, estimate: Path) -> list[IRModule]:
    """The program that each task was predicted to run fastest with, in the order of the tasks."""
    with np.load(npz, allow_pickle=False) as file:
        traces = json.loads(zlib.decompress(file["traces"].tobytes()))
        places = {
            (int(task), str(schedule)): k
            for k, (task, schedule) in enumerate(zip(file["owner"], file["hash"], strict=True))
        }
    wanted = {one["task"]: one["schedule"] for one in read_json(estimate)["tasks"]}
    found = []
    for number, task in enumerate(graph.tasks):
        trace = traces[places[number, wanted[compiler.hash_of(task)]]]
        found.append(compiler.rebuilt(task, trace) if trace else task)
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


def end_to_end(module: IRModule, device: str, clock: Clock) -> float:
    """Seconds of a run of the whole network, the fastest of some readings."""
    library = tvm.compile(module, compiler.target_of(device, cores=1))
    machine = relax.VirtualMachine(library, tvm.cpu(0))
    about = [
        {"shape": [int(x) for x in p.ty.shape], "dtype": str(p.ty.dtype)}
        for p in module["main"].params
    ]
    arena = Arena()
    inputs = arena.arguments("0", {"arguments": about})
    machine["main"](*inputs)
    start = time.perf_counter()
    machine["main"](*inputs)
    number = max(1, int(READING_SECONDS / (time.perf_counter() - start)))
    readings = []
    for _ in range(VISITS):
        time.sleep(PAUSE_SECONDS)
        with clock.core.calm():
            readings.append(machine.time_evaluator("main", tvm.cpu(0), number)(*inputs).mean)
    return min(readings)


def alone(programs: list[IRModule], tasks: list[str], device: str, clock: Clock) -> list[float]:
    """Seconds of each program by itself, as the dataset has them."""
    found = []
    for task, module in zip(tasks, programs, strict=True):
        library = compiler.machine_program(compiler.lowered([module]), device)
        about = [
            {"shape": [int(x) for x in p.shape], "dtype": str(p.dtype)}
            for p in module["main"].params
        ]
        arguments = Arena().arguments(task, {"arguments": about})
        watch = Stopwatch([(library, "f0")], arguments)
        while not watch.done:
            clock.visit([watch])
            time.sleep(PAUSE_SECONDS / 10)
        found.append(float(np.nanmin(watch.seconds[0, 1:])))
    return found


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
    module = relax_module(named(args.network, args.batch))
    graph = graph_of(module)
    programs = chosen_programs(graph, args.npz, args.estimate)
    tasks = [compiler.hash_of(one) for one in graph.tasks]
    library = compiler.machine_program(compiler.lowered([reference_program()]), "avx2")
    core = Anywhere() if args.core is None else TimingCore(args.core)
    clock = Clock(core, library, os.getpid())
    found = {
        "seconds": end_to_end(whole(module, graph, programs), args.device, clock),
        "programs": dict(zip(tasks, alone(programs, tasks, args.device, clock), strict=True)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
