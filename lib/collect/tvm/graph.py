"""A network's data-flow graph: which tensor program each call runs, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule

from lib.collect.tvm.compiler import alone, hash_of
from lib.collect.tvm.features import Walked
from lib.collect.tvm.importing import Imported
from lib.files.errors import UserError


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
    """Return the data-flow graph of a network.

    Raises:
        UserError: something in it is no call of a tensor program that has features, or there is
            none; names the operator.
    """
    module = network.module
    sources: dict[Any, frozenset[int]] = {}  # of each variable: the calls that it waits for
    calls: list[Call] = []
    tasks: list[IRModule] = []
    names: list[str] = []
    numbers: dict[str, int | None] = {}  # of tasks; none of those that store constants alone
    functions: dict[str, int] = {}
    wholes: dict[Any, relax.Expr] = {}  # of each tensor that is another one in another shape
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            free = relax.analysis.free_vars(value)
            after = frozenset().union(*(sources.get(source, frozenset()) for source in free))
            operator = getattr(getattr(value, "op", None), "name", "")
            if operator == "relax.reshape":  # no program: the same memory
                wholes[binding.var] = wholes.get(value.args[0], value.args[0])
            elif isinstance(value, relax.Call):
                if operator == "relax.call_dps_packed":  # a library's function
                    operator = str(value.args[0].global_symbol)
                if operator != "relax.call_tir":
                    what = f"TVM has no tensor program for {operator.removeprefix('relax.')}"
                    raise UserError(f"{network.name}: {what}")
                name, task = value.args[0].name_hint, alone(module[value.args[0]])
                operators, key = name.removeprefix("fused_"), hash_of(task)
                if key not in numbers:
                    try:
                        computes = Walked(task).computes  # loops must be such that a tree can show
                    except UserError as error:
                        raise UserError(f"{network.name}: {operators}: {error}") from None
                    numbers[key] = len(tasks) if computes else None
                    if computes:
                        tasks.append(task)
                        names.append(operators)
                if (number := numbers[key]) is not None:
                    functions[name] = number
                    read = [wholes.get(argument, argument) for argument in value.args[1]]
                    reads, writes = _traffic(read, module["main"].params, task)
                    calls.append(Call(number, tuple(sorted(after)), reads, writes))
                    after = frozenset({len(calls) - 1})
            sources[binding.var] = after
    if not calls:
        raise UserError(f"{network.name}: it computes nothing, so that it has no tensor program")
    return Graph(tuple(calls), tuple(tasks), tuple(names), functions)


def read_between(graph: Graph, footprint: int) -> list[int]:
    """Return bytes of weights that are read between two calls of each task for the same weights.

    Args:
        graph: of a network.
        footprint: bytes of its weights, which are read between a call and that of the next run.
    """
    read = 0
    places: dict[tuple, int] = {}  # of a task and its weights: what was read until its last call
    distances: list[list[int]] = [[] for _ in graph.tasks]
    for call in graph.calls:
        place = call.task, *(number for number, _ in call.reads)
        distances[call.task].append(min(footprint, read - places.get(place, -footprint)))
        read += sum(number for _, number in call.reads)
        places[place] = read
    return [int(np.median(some)) for some in distances]


def _traffic(
    arguments: Sequence[relax.Expr], parameters: Sequence[relax.Var], task: IRModule
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return ``reads`` and ``writes`` of a call; ``parameters`` are weights and inputs."""
    writes = _bytes_of(task["main"].params[-1])
    most = max(4 * int(tvm.s_tir.analysis.estimate_tir_flops(task)), writes)
    read = [
        (number, min(most, _bytes_of(parameter.ty)))
        for number, parameter in enumerate(parameters)
        if any(parameter.same_as(x) for x in arguments)
    ]
    return tuple(read), writes


def _bytes_of(tensor: Any) -> int:
    return int(np.prod([int(x) for x in tensor.shape])) * np.dtype(str(tensor.dtype)).itemsize
