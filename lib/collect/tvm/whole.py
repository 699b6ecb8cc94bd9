"""A whole network, for ``make latency``: its data-flow graph, and programs of each of its tasks.

    python -m lib.collect.tvm.whole resnet18 network.npz --batch 1 --schedules 8

What it writes, :mod:`lib.latency.network` reads, in the environment that has the predictor. A
network is one of :mod:`lib.collect.tvm.networks`, or ``file.py:function``, which returns a
``torch.nn.Module`` and a tuple of example inputs, for a batch if it takes one.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from tvm import relax
from tvm.ir import IRModule

from lib.collect.tvm import raw
from lib.collect.tvm.compiler import Sampler, Scheduled, hash_of
from lib.collect.tvm.extract import relax_module
from lib.collect.tvm.features import features
from lib.collect.tvm.networks import Built, Network, all_networks
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors

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
        names: what each computes.
        functions: by name in the network's module, which task each is.
    """

    calls: tuple[Call, ...]
    tasks: tuple[IRModule, ...]
    names: tuple[str, ...]
    functions: dict[str, int]


def named(name: str, batch: int | None) -> Network:
    """The network that a name means: the one of that family and batch, the largest of several.

    Args:
        name: ``family``, ``family.size``, ``family.size.bN``, or ``file.py:function``.
        batch: ``None`` for 1, or what the name says.

    Raises:
        UserError: there is none, or the file has no such function.
    """
    path, colon, function = name.rpartition(":")
    if colon:
        return Network(name, _users(Path(path), function, batch or 1))
    known = {one.name: one for one in all_networks()}
    if name in known and batch in (None, int(name.rpartition(".b")[2])):
        return known[name]
    ending = f".b{batch or 1}"
    fits = [one for key, one in known.items() if f"{key}.".startswith(f"{name}.")]
    found = [one for one in fits if one.name.endswith(ending)]
    if not found:
        there = ", ".join(sorted(one.name for one in fits)) or "python -m lib.collect.tvm --list"
        raise UserError(f"network {name!r} of batch {batch or 1}: not among {there}")
    return max(found, key=lambda one: _sizes(one.name))


def _sizes(name: str) -> list[int]:
    """The numbers in a network's size, such as ``w64_s112``."""
    return [int(part.lstrip("wslnt")) for part in name.split(".")[1].split("_")]


def _users(path: Path, function: str, batch: int) -> Callable[[], Built]:
    """What builds a network of the user's own."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; a network is a name, or file.py:function")

    def build() -> Built:
        """The network and its example inputs."""
        spec = importlib.util.spec_from_file_location("network_of_the_user", path)
        if spec is None or spec.loader is None:
            raise UserError(f"{path}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
            made = getattr(module, function)
            made = made(batch) if inspect.signature(made).parameters else made()
        except Exception as error:  # the user's code, whatever it does
            raise UserError(f"{path}: {function}: {type(error).__name__}: {error}") from error
        match made:
            case (torch.nn.Module() as network, tuple() as inputs):
                return network, inputs
        raise UserError(f"{path}: {function}: must return a torch.nn.Module and a tuple of inputs")

    return build


def graph_of(module: IRModule) -> Graph:
    """The data-flow graph of a network's module, as :func:`relax_module` makes it.

    Raises:
        UserError: something in it is no call of a tensor program.
    """
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
            after = frozenset().union(*(sources.get(one, frozenset()) for one in free))
            if _is_program(value):
                variable = value.args[0]
                own = alone(module[variable])
                number = numbers.setdefault(hash_of(own), len(tasks))
                if number == len(tasks):
                    tasks.append(own)
                    names.append(variable.name_hint.removeprefix("fused_"))
                functions[variable.name_hint] = number
                reads, writes = _traffic(value, module["main"].params, tasks[number])
                calls.append(Call(number, tuple(sorted(after)), reads, writes))
                after = frozenset({len(calls) - 1})
            elif isinstance(value, relax.Call):
                raise UserError(f"{value.op}: only tensor programs can be predicted")
            sources[binding.var] = after
    return Graph(tuple(calls), tuple(tasks), tuple(names), functions)


def without(graph: Graph, dropped: Collection[int]) -> Graph:
    """A graph without some tasks: what waited for a call of one waits for what that waited for."""
    kept = [k for k in range(len(graph.tasks)) if k not in dropped]
    calls: list[Call] = []
    places: list[frozenset[int]] = []  # of each call of the graph: the calls that stand for it
    for call in graph.calls:
        after = frozenset().union(*(places[k] for k in call.after))
        if call.task not in dropped:
            calls.append(replace(call, task=kept.index(call.task), after=tuple(sorted(after))))
            after = frozenset({len(calls) - 1})
        places.append(after)
    return Graph(
        tuple(calls),
        tuple(graph.tasks[k] for k in kept),
        tuple(graph.names[k] for k in kept),
        {name: kept.index(k) for name, k in graph.functions.items() if k in kept},
    )


def only_constants(graph: Graph) -> set[int]:
    """The tasks that store nothing but constants: TVM has no features of those."""
    return {k for k, task in enumerate(graph.tasks) if not len(features([task])[0])}


def _traffic(
    value: relax.Call, given: Sequence[relax.Var], task: IRModule
) -> tuple[tuple[tuple[int, int], ...], int]:
    """``reads`` and ``writes`` of a call; ``given`` are the network's weights and inputs."""
    writes = _bytes_of(task["main"].params[-1])
    most = max(4 * int(tvm.s_tir.analysis.estimate_tir_flops(task)), writes)
    read = [
        (number, min(most, _bytes_of(one.ty)))
        for number, one in enumerate(given)
        if any(one.same_as(x) for x in value.args[1])
    ]
    return tuple(read), writes


def _bytes_of(tensor: Any) -> int:
    return int(np.prod([int(x) for x in tensor.shape])) * np.dtype(str(tensor.dtype)).itemsize


def _is_program(value: Any) -> bool:
    return isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir"


def alone(function: Any) -> IRModule:
    """A function of a network as a task: as MetaSchedule takes it out, with the same hash."""
    function = function.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)
    return IRModule({"main": function})


def programs_of(graph: Graph, schedules: int, seed: int) -> tuple[list[Scheduled], np.ndarray]:
    """Programs of each task under random schedules, and (n,) which task each is of."""
    found: list[Scheduled] = []
    owner: list[int] = []
    for number, task in enumerate(graph.tasks):
        drawn = Sampler(task, seed).distinct(schedules, set())
        drawn = drawn or [Scheduled(hash_of(task), "", task)]
        found += drawn
        owner += [number] * len(drawn)
    return found, np.array(owner, np.int32)


def write_network(path: Path, network: Network, schedules: int, seed: int) -> Graph:
    """Write a network's graph and programs.

    Args:
        path: the npz to write.
        network: which.
        schedules: at most so many of each task.
        seed: of the schedules.

    Raises:
        UserError: it cannot be read, or TVM's features of a task's programs cannot be used.
    """
    graph = graph_of(relax_module(network))
    graph = without(graph, only_constants(graph))  # which take next to no time
    programs, owner = programs_of(graph, schedules, seed)
    arrays = raw.described(
        [one.module for one in programs],
        [one.hash for one in programs],
        [one.trace for one in programs],
    )
    for number, name in enumerate(graph.names):
        if not arrays["joined"][owner == number].any():
            raise UserError(f"{name}: TVM's features of it do not go with its loops")
    about = {
        "network": network.name,
        "seed": seed,
        "calls": [asdict(one) for one in graph.calls],
        "tasks": [
            {"task": hash_of(task), "operators": name}
            for task, name in zip(graph.tasks, graph.names, strict=True)
        ],
        "tvm": tvm.__version__,
    }
    raw.write(path, {**arrays, "owner": owner}, about)
    return graph


def main(arguments: list[str] | None = None) -> None:
    """Write what the command line asks for."""
    parser = Parser(prog="python -m lib.collect.tvm.whole", description=__doc__)
    parser.add_argument("network", help="a name, or file.py:function")
    parser.add_argument("file", type=Path, help="what to write, an npz")
    parser.add_argument("--batch", type=int, help="examples at a time")
    parser.add_argument("--schedules", type=int, default=8, help="of each task")
    parser.add_argument("--seed", type=int, default=0, help="of the schedules")
    args = parser.parse_args(arguments)
    for name, least, most in (("batch", 1, 1 << 16), ("schedules", 1, MOST_SCHEDULES)):
        value = getattr(args, name)
        if value is not None and not least <= value <= most:
            raise UserError(f"--{name} {value}: must be from {least} to {most}")
    network = named(args.network, args.batch)
    graph = write_network(args.file, network, args.schedules, args.seed)
    print(f"network: {network.name}: {len(graph.calls)} calls of {len(graph.tasks)} tasks")


if __name__ == "__main__":
    with one_line_errors():
        main()
