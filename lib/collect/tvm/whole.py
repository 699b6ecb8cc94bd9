"""A whole network, for ``make latency``: its data-flow graph, and programs of each of its tasks.

    python -m lib.collect.tvm.whole resnet18 network.npz --batch 1 --schedules 8

What it writes, :mod:`lib.programs.latency.network` reads, where the predictor is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from lib.collect.tvm.database import fastest_programs
from lib.collect.tvm.features import features, tree_of
from lib.collect.tvm.importing import Imported, imported
from lib.collect.tvm.networks import Network
from lib.files.command_line import Parser
from lib.files.errors import DataError, UserError, one_line_errors

MOST_SCHEDULES = 1024


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


def programs_of(
    graph: Graph, schedules: int, seed: int, database: Path | None = None
) -> tuple[list[Scheduled], np.ndarray]:
    """Programs of each task under random schedules, and (n,) which task each is of.

    With a tuning database, each task has one program, under the database's fastest schedule; tasks
    of which it has none stay as they are, which is how TVM compiles them.
    """
    programs: list[Scheduled] = []
    owner: list[int] = []
    tuned = fastest_programs(database, graph.tasks) if database else []
    for number, task in enumerate(graph.tasks):
        drawn = [] if tuned else Sampler(task, seed).distinct(schedules, set())
        module = tuned[number].mod if tuned and tuned[number] else task
        drawn = drawn or [Scheduled(hash_of(module), "", module)]
        programs += drawn
        owner += [number] * len(drawn)
    return programs, np.array(owner, np.int32)


def write_network(
    path: Path, network: Network, schedules: int, seed: int, database: Path | None = None
) -> Graph:
    """Write a network's graph and programs.

    Args:
        path: the npz to write.
        network: which.
        schedules: at most so many of each task.
        seed: of the schedules.
        database: a tuning database in place of random schedules.

    Raises:
        UserError: it cannot be read, or TVM's features of a task's programs cannot be used.
    """
    graph, programs, owner = _drawn(network, schedules, seed, database)
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


def _drawn(
    network: Network, schedules: int, seed: int, database: Path | None
) -> tuple[Graph, list[Scheduled], np.ndarray]:
    """A network's graph, its programs, and (n,) which task each is of.

    A tuning database is that of a search, whose network is as it is deployed, or somebody's own.
    """
    if database:
        with suppress(DataError):
            graph = _worth_timing(network, deployed=True)
            return graph, *programs_of(graph, schedules, seed, database)
    graph = _worth_timing(network)
    return graph, *programs_of(graph, schedules, seed, database)


def _worth_timing(network: Network, deployed: bool = False) -> Graph:
    """A network's graph without what only writes constants, which takes next to no time."""
    graph = graph_of(imported(network, deployed))
    return without(graph, only_constants(graph))


def main(arguments: list[str] | None = None) -> None:
    """Write what the command line asks for."""
    parser = Parser(prog="python -m lib.collect.tvm.whole", description=__doc__)
    parser.add_argument("network", help="a name, file.py:function, file.onnx or file.pt2")
    parser.add_argument("file", type=Path, help="what to write, an npz")
    parser.add_argument("--batch", type=int, help="examples at a time")
    parser.add_argument("--schedules", type=int, default=8, help="of each task")
    parser.add_argument("--seed", type=int, default=0, help="of the schedules")
    parser.add_argument("--database", type=Path, help="folder of a tuning database, in their place")
    args = parser.parse_args(arguments)
    for name, least, most in (("batch", 1, 1 << 16), ("schedules", 1, MOST_SCHEDULES)):
        value = getattr(args, name)
        if value is not None and not least <= value <= most:
            raise UserError(f"--{name} {value}: must be from {least} to {most}")
    network = named(args.network, args.batch)
    graph = write_network(args.file, network, args.schedules, args.seed, args.database)
    print(f"network: {network.name}: {len(graph.calls)} calls of {len(graph.tasks)} tasks")


if __name__ == "__main__":
    with one_line_errors():
        main()
