"""A whole network, for ``make latency``: its data-flow graph, and programs of each of its tasks.

    python -m lib.collect.tvm.whole torchvision:resnet18 network.npz --schedules 8
    python -m lib.collect.tvm.whole torchvision:resnet18 network.npz --budget 16 --device avx2

A task's programs are those under random schedules, or those that a search of so many measurements
would begin with. What is written,
:mod:`lib.programs.latency.network` reads, where the predictor is.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import tvm
from tvm.ir import IRModule

from lib.collect.tvm import raw
from lib.collect.tvm.compiler import Sampler, Scheduled, hash_of, rebuilt
from lib.collect.tvm.cost_model import trained
from lib.collect.tvm.graph import Graph, graph_of, only_constants, without
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import Network, named
from lib.files.artifacts import fingerprint_value, read_json, write_json
from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors
from lib.files.progress import Lines
from lib.files.schema import expect

MOST_SCHEDULES = 1024
BUDGET = 16  # schedules of a task, by default


Drawn = Callable[[IRModule], list[Scheduled]]  # programs of a task


def programs_of(graph: Graph, drawn: Drawn) -> tuple[list[Scheduled], np.ndarray]:
    """Return programs of each task, and (n,) tasks of these; a task without one is its own."""
    programs: list[Scheduled] = []
    owner: list[int] = []
    tasks = Lines("latency", len(graph.tasks), "task").over(graph.tasks)
    for number, task in enumerate(tasks):
        scheduled = drawn(task) or [Scheduled(hash_of(task), "", task)]
        programs += scheduled
        owner += [number] * len(scheduled)
    return programs, np.array(owner, np.int32)


def write_network(path: Path, network: Network, drawn: Drawn, seed: int = 0) -> Graph:
    """Write a network's graph and programs.

    Args:
        path: the npz to write.
        network: which.
        drawn: makes programs of a task.
        seed: of the schedules.

    Raises:
        UserError: it cannot be read, or TVM's features of a task's programs cannot be used.
    """
    graph = graph_of(imported(network))
    graph = without(graph, only_constants(graph))  # which takes next to no time
    programs, owner = programs_of(graph, drawn)
    arrays = raw.described(
        [program.module for program in programs],
        [program.hash for program in programs],
        [program.trace for program in programs],
    )
    for number, name in enumerate(graph.names):
        if not arrays["joined"][owner == number].any():
            raise UserError(f"{name}: TVM's features of it do not go with its loops")
    metadata = {
        "network": network.name,
        "seed": seed,
        "calls": [asdict(call) for call in graph.calls],
        "tasks": [
            {"task": hash_of(task), "operators": name}
            for task, name in zip(graph.tasks, graph.names, strict=True)
        ],
        "tvm": tvm.__version__,
    }
    raw.write(path, {**arrays, "owner": owner}, metadata)
    return graph


def main(arguments: list[str] | None = None) -> None:
    """Write the graph and programs of the network that the command line names."""
    parser = Parser(prog="python -m lib.collect.tvm.whole", description=__doc__)
    parser.add_argument("network", help="its name, as NETWORK= of make takes it")
    parser.add_argument("file", type=Path, help="what to write, an npz")
    parser.add_argument("--batch", type=int, help="examples at a time")
    parser.add_argument("--shape", default="", help="free dimensions of an ONNX file: name=128,...")
    parser.add_argument("--schedules", type=int, help="random schedules of each task")
    searched = "as many schedules of each task as a search would measure of it first"
    parser.add_argument("--budget", type=int, default=BUDGET, help=searched)
    parser.add_argument("--device", help="that a search is for")
    parser.add_argument("--seed", type=int, default=0, help="of the schedules")
    of = "fingerprint of the predictor that a search asks: what a killed run has drawn is taken up"
    parser.add_argument("--predictor", help=of)
    predictor = "of the predictor that a search asks"
    for flag in ("--outputs", "--data"):
        parser.add_argument(flag, type=Path, help=predictor)
    for flag in ("--collection", "--model", "--experiment"):
        parser.add_argument(flag, help=predictor)
    args = parser.parse_args(arguments)
    most = {"batch": 1 << 16, "schedules": MOST_SCHEDULES, "budget": MOST_SCHEDULES}
    for name, limit in most.items():
        value = getattr(args, name)
        if value is not None and not 1 <= value <= limit:
            raise UserError(f"--{name} {value}: must be from 1 to {limit}")
    network, drawn = named(args.network, args.batch, args.shape), drawing(args)
    kept = args.file.with_name(f"{args.file.name}.drawn")  # of a run that was killed
    if args.predictor:
        identity = {"tvm": tvm.__version__, **{name: str(v) for name, v in vars(args).items()}}
        drawn = keeping(drawn, kept, fingerprint_value(identity))
    graph = write_network(args.file, network, drawn, args.seed)
    shutil.rmtree(kept, ignore_errors=True)
    print(f"latency: {network.name}: {len(graph.calls)} calls of {len(graph.tasks)} tasks")


def keeping(drawn: Drawn, folder: Path, identity: str) -> Drawn:
    """Return the same function, which keeps the programs of each task and takes those that are
    kept.

    Args:
        drawn: makes programs of a task.
        folder: where they are kept.
        identity: of all that they come from; those of another one are not taken.
    """

    def kept(task: IRModule) -> list[Scheduled]:
        """Return the programs of a task, drawn only if none are kept."""
        path = folder / f"{hash_of(task)}.json"
        with suppress(DataError):
            found = expect(read_json(path), {"identity": str, "traces": [str]}, path)
            if found["identity"] == identity:
                modules = [(trace, rebuilt(task, trace).mod) for trace in found["traces"]]
                return [Scheduled(hash_of(module), trace, module) for trace, module in modules]
        programs = drawn(task)
        traces = [program.trace for program in programs]
        write_json(path, {"identity": identity, "traces": traces})
        return programs

    return kept


def drawing(args: argparse.Namespace) -> Drawn:
    """Return a function that makes programs of a task, as the command line says."""
    if args.schedules:
        return lambda task: Sampler(task, args.seed).distinct(args.schedules, set())
    if args.device is None:
        raise UserError("--device: must be named, or --schedules, to draw programs")
    names = "outputs", "data", "collection", "model", "experiment"
    settings = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    model = trained(args.device, **settings)
    return lambda task: Sampler(task, args.seed).searched(model, args.budget)


if __name__ == "__main__":
    with one_line_errors():
        main()
