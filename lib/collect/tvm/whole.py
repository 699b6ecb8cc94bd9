"""A whole network, for ``make latency``: its data-flow graph, and programs of each of its tasks.

    python -m lib.collect.tvm.whole torchvision:resnet18 network.npz --schedules 8
    python -m lib.collect.tvm.whole torchvision:resnet18 network.npz --budget 16

A task's programs are those under random schedules, or the one that a search predicts to be
fastest: then :mod:`lib.programs.latency` has started this, and predicts for it over standard input
and output, see :mod:`lib.programs.messages`. :mod:`lib.programs.latency.network` reads what is
written.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import tvm
from tvm.ir import IRModule
from tvm.s_tir import Schedule

from lib.collect.tvm import raw
from lib.collect.tvm.compiler import Sampler, decisions_of, differ, hash_of, rebuilt
from lib.collect.tvm.cost_model import PredictorModel, Talk, standard
from lib.collect.tvm.graph import Graph, graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import named
from lib.collect.tvm.plain import unscheduled
from lib.collect.tvm.tiles import lanes_of, tilings
from lib.files.children import end_with_parent
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.processor import MCPU
from lib.programs.messages import NATIVE

MOST_SCHEDULES = 1024
BUDGET = 16  # schedules of a task, by default
DRAWN = 8  # schedules of a task, at random, for a first answer
TILED = 12  # of a task, whose tiles registers hold
SHARE = 0.01  # of the network's time: tasks that take less are not searched any further


@dataclass
class Work:
    """What the processes share that look for the fastest programs of tasks, as predicted.

    Attributes:
        tasks: of a network.
        seed: of the schedules.
        generations: of a search.
        lanes: numbers of a vector of the device.
        talk: to the predictor.
    """

    tasks: Sequence[IRModule]
    seed: int
    generations: int
    lanes: int
    talk: Talk


Found = tuple[float, str]  # seconds as predicted, and the trace of a schedule
WORK: Work  # of this process


def begin(work: Work) -> None:
    """Take over what a process of the pool is to do."""
    global WORK
    end_with_parent()
    WORK = work


def drawn(number: int) -> tuple[Found, bool]:
    """Return the fastest of a few programs of a task, and whether a search may know better: of
    tiles that registers hold, or random ones."""
    task, model = WORK.tasks[number], PredictorModel(WORK.talk)
    sampler = Sampler(task, WORK.seed)
    tiled = tilings(sampler, WORK.lanes, TILED)
    few = [] if tiled else sampler.draw(DRAWN)
    model.logs(hash_of(task), tiled or [*few, *unscheduled(task)])
    return fastest(task, model), differ(few)


def searched(number: int) -> Found:
    """Return the fastest of the programs of a task that a search makes up."""
    task, model = WORK.tasks[number], PredictorModel(WORK.talk)
    Sampler(task, WORK.seed).searched(model, WORK.generations)
    return fastest(task, model)


def fastest(task: IRModule, model: PredictorModel) -> Found:
    """Return what a cost model likes best of a task; the task itself if it likes nothing."""
    log, schedule = model.best.get(hash_of(task), (math.inf, None))
    return float(np.exp(log)), decisions_of(schedule or Schedule(task))


def predicted(graph: Graph, args: argparse.Namespace, talk: Talk) -> list[Schedule]:
    """Return the program of each task that is predicted to be fastest.

    A few programs of all tasks give a first answer, which is said. Then the tasks are searched that
    the network spends its time on, but those with tiles that registers hold. Tasks are side by side
    on the cores there are.
    """
    fork = get_context("fork")
    talk = replace(talk, lock=fork.Lock())
    generations = 1 + round(math.log2(args.budget))
    work = Work(graph.tasks, args.seed, generations, lanes_of(args.device), talk)
    calls = np.bincount([call.task for call in graph.calls], minlength=len(graph.tasks))
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, mp_context=fork, initializer=begin, initargs=(work,)) as pool:
        found: list[Found] = []
        searchable = []
        for result, may_gain in pool.map(drawn, range(len(graph.tasks))):
            found.append(result)
            searchable.append(may_gain)
            talk.tell("drawn", {"done": len(found), "of": len(graph.tasks)}, {})
        seconds = np.nan_to_num(calls * [taken for taken, _ in found], posinf=0)
        talk.tell("first", {"seconds": float(seconds.sum())}, {})
        worth = np.array(searchable) & (seconds >= SHARE * seconds.sum())
        order = np.flatnonzero(worth)[np.argsort(-seconds[worth])]
        results = pool.map(searched, order.tolist())
        for done, (number, result) in enumerate(zip(order, results, strict=True), 1):
            found[number] = min(found[number], result)
            talk.tell("searched", {"done": done, "of": len(order)}, {})
    return [rebuilt(task, trace) for task, (_, trace) in zip(graph.tasks, found, strict=True)]


def write_network(
    path: Path, name: str, graph: Graph, programs: Sequence[Schedule], owner: np.ndarray, seed: int
) -> None:
    """Write a network's graph and programs.

    Args:
        path: the npz to write.
        name: the network's.
        graph: its calls and tasks.
        programs: of the tasks.
        owner: (n,) which task each program is of.
        seed: of the schedules.

    Raises:
        UserError: TVM's features of a task's programs cannot be used.
    """
    arrays = raw.scheduled(programs)
    for number, operators in enumerate(graph.names):
        if not arrays["joined"][owner == number].any():
            raise UserError(f"{operators}: TVM's features of it do not go with its loops")
    metadata = {
        "network": name,
        "seed": seed,
        "calls": [asdict(call) for call in graph.calls],
        "tasks": [
            {"task": hash_of(task), "operators": operators}
            for task, operators in zip(graph.tasks, graph.names, strict=True)
        ],
        "tvm": tvm.__version__,
    }
    raw.write(path, {**arrays, "owner": owner}, metadata)


def main(arguments: list[str] | None = None) -> None:
    """Write the graph and programs of the network that the command line names."""
    parser = Parser(prog="python -m lib.collect.tvm.whole", description=__doc__)
    parser.add_argument("network", help="its name, as NETWORK= of make takes it")
    parser.add_argument("file", type=Path, help="what to write, an npz")
    parser.add_argument("--batch", type=int, help="examples at a time")
    parser.add_argument("--shape", default="", help="free dimensions of an ONNX file: name=128,...")
    parser.add_argument("--schedules", type=int, help="random schedules of each task")
    searched = "programs that a search would measure: the more, the longer one is looked for"
    parser.add_argument("--budget", type=int, default=BUDGET, help=searched)
    parser.add_argument("--seed", type=int, default=0, help="of the schedules")
    sets = "of the device, whose vectors tiles are made for"
    parser.add_argument("--device", default=NATIVE, choices=(*MCPU, NATIVE), help=sets)
    args = parser.parse_args(arguments)
    most = {"batch": 1 << 16, "schedules": MOST_SCHEDULES, "budget": MOST_SCHEDULES}
    for name, limit in most.items():
        value = getattr(args, name)
        if value is not None and not 1 <= value <= limit:
            raise UserError(f"--{name} {value}: must be from 1 to {limit}")
    talk = None if args.schedules else standard()
    network = named(args.network, args.batch, args.shape)
    graph = graph_of(imported(network, runs=False))  # a search checks what is computed
    if talk:
        programs = predicted(graph, args, talk)
        owner = np.arange(len(programs), dtype=np.int32)
    else:
        of_task = [random(task, args) for task in graph.tasks]
        programs = [program for some in of_task for program in some]
        owner = np.repeat(np.arange(len(of_task), dtype=np.int32), [len(some) for some in of_task])
    write_network(args.file, network.name, graph, programs, owner, args.seed)


def random(task: IRModule, args: argparse.Namespace) -> list[Schedule]:
    """Return random programs of a task; a task without one is its own."""
    found = Sampler(task, args.seed).distinct(args.schedules, set())
    return found or [Schedule(task)]


if __name__ == "__main__":
    with one_line_errors():
        main()
