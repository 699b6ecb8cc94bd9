"""A whole network, for ``make latency``: its data-flow graph, and programs of each of its tasks.

    python -m lib.collect.tvm.whole resnet18 network.npz --batch 1 --schedules 8
    python -m lib.collect.tvm.whole resnet18 network.npz --batch 1 --budget 16 --device avx2

A task's programs are those under random schedules, or those that a search of so many measurements
would begin with, or that under the fastest schedule of a tuning database. What is written,
:mod:`lib.programs.latency.network` reads, where the predictor is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule

from lib.collect.tvm import raw
from lib.collect.tvm.asked import named
from lib.collect.tvm.compiler import Sampler, Scheduled, alone, hash_of
from lib.collect.tvm.cost_model import trained
from lib.collect.tvm.database import fastest_programs
from lib.collect.tvm.features import features, tree_of
from lib.collect.tvm.importing import Imported, imported
from lib.collect.tvm.networks import Network
from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors

MOST_SCHEDULES = 1024
BUDGET = 16  # schedules of a task that are asked for by default


@dataclass(frozen=True)
class Call:
    """A node of the graph.

    Attributes:
        task: which it runs.
        after: which nodes.
        reads: of the network's weights and inputs that it reads, number and bytes. Of a table that
            it looks something up in it reads no more than it has use for.
        writes: bytes.
    """

    task: int
    after: tuple[int, ...]
    reads: tuple[tuple[int, int], ...] = ()
    writes: int = 0


@dataclass(frozen=True)
class Graph:
    """A network's calls in the order of its code, and the tasks that they run.

    Attributes:
        calls: the nodes.
        tasks: the distinct functions, each as a module of its own.
        names: what each task computes.
        functions: by name in the network's module, which task each is.
    """

    calls: tuple[Call, ...]
    tasks: tuple[IRModule, ...]
    names: tuple[str, ...]
    functions: dict[str, int]


def graph_of(network: Imported) -> Graph:
    """The data-flow graph of a network.

    Raises:
        UserError: something in it is no call of a tensor program that has features, or there is
            none; names the operator.
    """
    module = network.module
    sources: dict[Any, frozenset[int]] = {}  # of each variable: the calls that it waits for
    calls: list[Call] = []
    tasks: list[IRModule] = []
    names: list[str] = []
    numbers: dict[str, int] = {}
    functions: dict[str, int] = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            free = relax.analysis.free_vars(value)
            after = frozenset().union(*(sources.get(source, frozenset()) for source in free))
            if _is_program(value):
                variable = value.args[0]
                task = alone(module[variable])
                number = numbers.setdefault(hash_of(task), len(tasks))
                if number == len(tasks):
                    tasks.append(task)
                    names.append(variable.name_hint.removeprefix("fused_"))
                    _check_loops(network.name, names[-1], task)
                functions[variable.name_hint] = number
                reads, writes = _traffic(value, module["main"].params, tasks[number])
                calls.append(Call(number, tuple(sorted(after)), reads, writes))
                after = frozenset({len(calls) - 1})
            elif isinstance(value, relax.Call):
                what = f"TVM has no tensor program for {_operator(value)}"
                raise UserError(f"{network.name}: {what}")
            sources[binding.var] = after
    if not calls:
        raise UserError(f"{network.name}: it computes nothing, so that it has no tensor program")
    return Graph(tuple(calls), tuple(tasks), tuple(names), functions)


def without(graph: Graph, dropped: Collection[int]) -> Graph:
    """A graph without some tasks: what waited for their calls waits for what those waited for."""
    remaining = [k for k in range(len(graph.tasks)) if k not in dropped]
    calls: list[Call] = []
    places: list[frozenset[int]] = []  # of each call of the graph: the calls that stand for it
    for call in graph.calls:
        after = frozenset().union(*(places[k] for k in call.after))
        if call.task not in dropped:
            calls.append(replace(call, task=remaining.index(call.task), after=tuple(sorted(after))))
            after = frozenset({len(calls) - 1})
        places.append(after)
    return Graph(
        tuple(calls),
        tuple(graph.tasks[k] for k in remaining),
        tuple(graph.names[k] for k in remaining),
        {name: remaining.index(k) for name, k in graph.functions.items() if k in remaining},
    )


def only_constants(graph: Graph) -> set[int]:
    """The tasks that store nothing but constants: TVM has no features of those."""
    return {k for k, task in enumerate(graph.tasks) if not len(features([task])[0])}


def _traffic(
    value: relax.Call, parameters: Sequence[relax.Var], task: IRModule
) -> tuple[tuple[tuple[int, int], ...], int]:
    """``reads`` and ``writes`` of a call; ``parameters`` are the network's weights and inputs."""
    writes = _bytes_of(task["main"].params[-1])
    most = max(4 * int(tvm.s_tir.analysis.estimate_tir_flops(task)), writes)
    read = [
        (number, min(most, _bytes_of(parameter.ty)))
        for number, parameter in enumerate(parameters)
        if any(parameter.same_as(x) for x in value.args[1])
    ]
    return tuple(read), writes


def _bytes_of(tensor: Any) -> int:
    return int(np.prod([int(x) for x in tensor.shape])) * np.dtype(str(tensor.dtype)).itemsize


def _check_loops(network: str, operators: str, task: IRModule) -> None:
    """A task's loops must be such that a tree can show them."""
    try:
        tree_of(task)
    except UserError as error:
        raise UserError(f"{network}: {operators}: {error}") from None


def _operator(call: relax.Call) -> str:
    """What a call that is of no tensor program calls: an operator, or a library's function."""
    if call.op.name == "relax.call_dps_packed":
        return str(call.args[0].global_symbol)
    return call.op.name.removeprefix("relax.")


def _is_program(value: Any) -> bool:
    return isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir"


Drawn = Callable[[IRModule], list[Scheduled]]  # programs of a task


def programs_of(graph: Graph, drawn: Drawn) -> tuple[list[Scheduled], np.ndarray]:
    """Programs of each task, and (n,) which task each is of; a task without one is its own."""
    programs: list[Scheduled] = []
    owner: list[int] = []
    for number, task in enumerate(graph.tasks):
        own = drawn(task) or [Scheduled(hash_of(task), "", task)]
        programs += own
        owner += [number] * len(own)
    return programs, np.array(owner, np.int32)


def tuned_programs(graph: Graph, database: Path) -> tuple[list[Scheduled], np.ndarray]:
    """Each task under the fastest schedule of a tuning database, see :func:`programs_of`.

    Tasks of which it has none stay as they are, which is how TVM compiles them.

    Raises:
        DataError: there is none, or it has none of these tasks.
    """
    found = zip(graph.tasks, fastest_programs(database, graph.tasks), strict=True)
    tuned = {hash_of(task): schedule.mod for task, schedule in found if schedule}

    def drawn(task: IRModule) -> list[Scheduled]:
        module = tuned.get(hash_of(task))
        return [Scheduled(hash_of(module), "", module)] if module else []

    return programs_of(graph, drawn)


def write_network(
    path: Path, network: Network, drawn: Drawn, seed: int = 0, database: Path | None = None
) -> Graph:
    """Write a network's graph and programs.

    Args:
        path: the npz to write.
        network: which.
        drawn: makes programs of a task.
        seed: of the schedules.
        database: a tuning database, whose fastest programs take the place of those.

    Raises:
        UserError: it cannot be read, or TVM's features of a task's programs cannot be used.
    """
    graph, programs, owner = _programs(network, drawn, database)
    arrays = raw.described(
        [program.module for program in programs],
        [program.hash for program in programs],
        [program.trace for program in programs],
    )
    for number, name in enumerate(graph.names):
        if not arrays["joined"][owner == number].any():
            raise UserError(f"{name}: TVM's features of it do not go with its loops")
    about = {
        "network": network.name,
        "seed": seed,
        "calls": [asdict(call) for call in graph.calls],
        "tasks": [
            {"task": hash_of(task), "operators": name}
            for task, name in zip(graph.tasks, graph.names, strict=True)
        ],
        "tvm": tvm.__version__,
    }
    raw.write(path, {**arrays, "owner": owner}, about)
    return graph


def _programs(
    network: Network, drawn: Drawn, database: Path | None
) -> tuple[Graph, list[Scheduled], np.ndarray]:
    """A network's graph as it is deployed, its programs, and (n,) which task each is of.

    A tuning database is that of a search, or somebody's own of the network as it is.
    """
    graph = _worth_timing(network, deployed=True)
    if database is None:
        return graph, *programs_of(graph, drawn)
    with suppress(DataError):
        return graph, *tuned_programs(graph, database)
    graph = _worth_timing(network, deployed=False)
    return graph, *tuned_programs(graph, database)


def _worth_timing(network: Network, deployed: bool) -> Graph:
    """A network's graph without what only writes constants, which takes next to no time."""
    graph = graph_of(imported(network, deployed))
    return without(graph, only_constants(graph))


def main(arguments: list[str] | None = None) -> None:
    """Write what the command line asks for."""
    parser = Parser(prog="python -m lib.collect.tvm.whole", description=__doc__)
    parser.add_argument("network", help="a name, file.py:function, file.onnx or file.pt2")
    parser.add_argument("file", type=Path, help="what to write, an npz")
    parser.add_argument("--batch", type=int, help="examples at a time")
    parser.add_argument("--schedules", type=int, help="random schedules of each task")
    searched = "as many schedules of each task as a search would measure of it first"
    parser.add_argument("--budget", type=int, default=BUDGET, help=searched)
    parser.add_argument("--device", help="that a search is for")
    parser.add_argument("--seed", type=int, default=0, help="of the schedules")
    parser.add_argument("--database", type=Path, help="folder of a tuning database, in their place")
    predictor = "of the predictor that a search asks"
    for flag in ("--outputs", "--data"):
        parser.add_argument(flag, type=Path, help=predictor)
    for flag in ("--collection", "--model", "--experiment"):
        parser.add_argument(flag, help=predictor)
    args = parser.parse_args(arguments)
    for name, least, most in (
        ("batch", 1, 1 << 16),
        ("schedules", 1, MOST_SCHEDULES),
        ("budget", 1, MOST_SCHEDULES),
    ):
        value = getattr(args, name)
        if value is not None and not least <= value <= most:
            raise UserError(f"--{name} {value}: must be from {least} to {most}")
    network = named(args.network, args.batch)
    graph = write_network(args.file, network, drawing(args), args.seed, args.database)
    print(f"network: {network.name}: {len(graph.calls)} calls of {len(graph.tasks)} tasks")


def drawing(args: argparse.Namespace) -> Drawn:
    """What makes programs of a task, as the command line asks for."""
    if args.database or args.schedules:
        return lambda task: Sampler(task, args.seed).distinct(args.schedules or 1, set())
    names = "outputs", "data", "collection", "model", "experiment"
    settings = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    model = trained(args.device, **settings)
    return lambda task: Sampler(task, args.seed).searched(model, args.budget)


if __name__ == "__main__":
    with one_line_errors():
        main()
