"""The work folder: networks, their tasks, and which jobs there are, in which order.

networks/NAME.json   which tasks a network calls, and how often
tasks/HASH.json      a task: its module as TVM's JSON, its arguments, how many schedules it has, and
                     the bytes of the weights of the largest network that calls it
raw/                 what was measured, see :mod:`lib.collect.tvm.raw`

An export at any time is a balanced set.
"""

from __future__ import annotations

import json
import lzma
import math
import zlib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from lib.collect.tvm import raw
from lib.files.artifacts import read_json, write_json
from lib.files.errors import UserError
from lib.programs.messages import file_name

Job = tuple[str, int, str]  # phase, round, task
# The networks and tasks of data/programs-cpu, a line of JSON each, as a work folder has them.
BUNDLED = Path(__file__).parents[3] / "data" / "programs-cpu" / "modules.jsonl.xz"
FLOPS = (2e4, 4e9)  # below it is all overhead, above it takes too long
BYTES = (1 << 17, 450_000_000)  # of arguments, likewise; a copy has no operations
JOBS = 60  # of one process
AGAIN = 10  # one in so many jobs is timed in a second process, too


def bundled() -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the networks of data/programs-cpu by their names, and the tasks by their hashes."""
    with lzma.open(BUNDLED, "rt") as file:
        rows = [json.loads(line) for line in file]
    networks = {row["network"]: row for row in rows if "network" in row}
    return networks, {row["task"]: row for row in rows if "task" in row}


def network_path(work: Path, name: str) -> Path:
    """Return the file of a network in the work folder."""
    return work / "networks" / f"{file_name(name)}.json"


def task_path(work: Path, task: str) -> Path:
    """Return the file of a task in the work folder."""
    return work / "tasks" / f"{task}.json"


def write_bundled(work: Path, patterns: Sequence[str]) -> list[str]:
    """Write the bundled networks that match any of some shell patterns, and their tasks.

    A pattern that is a task's hash is a network of that task alone.

    Returns:
        Their names.
    """
    networks, tasks = bundled()
    networks |= {
        task: {"network": task, "tasks": [{"task": task, "calls": 1}]}
        for task in patterns
        if task in tasks
    }
    names = [name for name in networks if any(fnmatch(name, pattern) for pattern in patterns)]
    for name in names:
        write_json(network_path(work, name), networks[name])
        for row in networks[name]["tasks"]:
            if not (path := task_path(work, row["task"])).exists():
                write_json(path, tasks[row["task"]])
    return names


def networks_of(work: Path) -> dict[str, dict[str, int]]:
    """Return how often each network calls each task, of all networks in the work folder."""
    tables = [read_json(path) for path in sorted((work / "networks").glob("*.json"))]
    return {t["network"]: {row["task"]: row["calls"] for row in t["tasks"]} for t in tables}


def tasks_of(work: Path) -> dict[str, dict[str, Any]]:
    """Return the description of each task, without its module."""
    tables = (read_json(path) for path in sorted((work / "tasks").glob("*.json")))
    return {t["task"]: {k: v for k, v in t.items() if k != "module"} for t in tables}


def eligible(metadata: dict[str, Any]) -> bool:
    """Return whether a task is neither tiny nor too slow."""
    sizes = (
        math.prod(argument["shape"]) * np.dtype(argument["dtype"]).itemsize
        for argument in metadata["arguments"]
    )
    flops, moved = metadata["flops"], sum(sizes)
    works = flops >= FLOPS[0] or moved >= BYTES[0]
    return works and flops <= FLOPS[1] and moved <= BYTES[1]


def eligible_tasks(work: Path, networks: Sequence[str]) -> list[str]:
    """Return the tasks of some networks of a work folder that are worth measuring.

    Raises:
        UserError: there is none.
    """
    tasks, calls = tasks_of(work), networks_of(work)
    called = sorted({task for name in networks for task in calls[name]})
    hashes = [task for task in called if eligible(tasks[task])]
    if not hashes:
        raise UserError("each task of these networks is too small or too slow to measure")
    return hashes


def chunks(rounds: range, tasks: Sequence[str], once: bool) -> Iterator[list[Job]]:
    """Yield the jobs of one process after the other.

    Rounds go over all tasks in an order that mixes networks. Unless all is to be timed ``once``, a
    process first times again some of what the process before it has timed.
    """
    order = sorted(tasks)
    groups = [order[k : k + JOBS] for k in range(0, len(order), JOBS)]  # each of one process
    for turn in rounds:
        repeated: list[str] = []
        for group in [*groups, []]:
            jobs = [("again", turn, task) for task in repeated]
            yield jobs + [("main", turn, task) for task in group]
            if not once:
                repeated = [task for task in group if (int(task, 16) + turn) % AGAIN == 0]


def seed_of(phase: str, turn: int, task: str) -> int:
    """Return the seed of the schedules that a job draws."""
    return zlib.crc32(f"{phase}:{task}:{turn}".encode())


def to_do(work: Path, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs without a result that nothing stands in the way of."""
    todo = []
    for phase, turn, task in jobs:
        done = raw.path(work, phase, turn, task).exists()
        given_up = raw.failed(work, phase, turn, task).exists()
        missing = phase == "again" and not raw.path(work, "main", turn, task).exists()
        if not (done or given_up or missing):
            todo.append((phase, turn, task))
    return todo


def finished(work: Path) -> Iterator[raw.Measured]:
    """Yield the raw files of programs that were timed first, in the order of tasks and rounds."""
    paths = (work / "raw" / "main").glob("[0-9]*/*.npz")
    for path in sorted(paths, key=lambda p: (p.stem, p.parts[-3:])):
        if not path.name.startswith(".") and len((measured := raw.read(path)).hash):
            yield measured
