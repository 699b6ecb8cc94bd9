"""Which jobs there are, and in which order: an export at any time is a balanced set."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from lib.collect.tvm import raw
from lib.files.artifacts import read_json, write_json
from lib.files.errors import DataError, UserError
from lib.files.regular import read_regular

Job = tuple[str, int, str]  # phase, round, task
DISTINCT_SHARE = 0.75  # of the schedules sampled from a task, else it runs out of them soon
FLOPS = (2e4, 1.1e9)  # below it is all overhead, above it takes too long
MOST_BYTES = 100_000_000  # of arguments
JOBS = 60  # of one process
AGAIN = 10  # one in so many jobs is timed in a second process, too
THREADED = 4  # the programs of one in so many tasks are timed on two threads, too
SEARCHED = 30  # tasks that are kept for searching
SEARCH_FLOPS = (5e5, 2e7)
PLAN = "plan.json"
HASH = re.compile("[0-9a-f]{16}")  # of a task
MOST_TEXT = 1 << 24  # bytes of a file of names


def networks_of(work: Path) -> dict[str, dict[str, int]]:
    """Network -> task -> how often it calls it, of all networks in the work folder."""
    tables = [read_json(path) for path in sorted((work / "networks").glob("*.json"))]
    return {t["network"]: {row["task"]: row["calls"] for row in t["tasks"]} for t in tables}


def footprints_of(work: Path) -> dict[str, int]:
    """Task -> bytes of the weights of the largest network that calls it."""
    footprints: dict[str, int] = {}
    for path in sorted((work / "networks").glob("*.json")):
        table = read_json(path)
        for row in table["tasks"]:
            known = footprints.get(row["task"], 0)
            footprints[row["task"]] = max(known, table["footprint"])
    return footprints


def tasks_of(work: Path) -> dict[str, dict[str, Any]]:
    """Task -> its description, without its module."""
    tables = (read_json(path) for path in sorted((work / "tasks").glob("*.json")))
    return {t["task"]: {k: v for k, v in t.items() if k != "module"} for t in tables}


def eligible(about: dict[str, Any]) -> bool:
    """Whether a task has enough schedules, and is neither tiny nor too slow."""
    sizes = (math.prod(a["shape"]) * _bytes(a["dtype"]) for a in about["arguments"])
    enough = about["distinct"] >= DISTINCT_SHARE * about["sampled"]
    return enough and FLOPS[0] <= about["flops"] <= FLOPS[1] and sum(sizes) <= MOST_BYTES


def _bytes(dtype: str) -> int:
    return int("".join(c for c in dtype if c.isdigit()) or 8) // 8


def searched(work: Path, tasks: dict[str, dict[str, Any]], excluded: set[str]) -> list[str]:
    """The tasks for searching: chosen once by hash, not among ``excluded``, and remembered."""
    path = work / PLAN
    if path.exists():
        return read_json(path)["search"]
    low, high = SEARCH_FLOPS
    flops = {task: about["flops"] for task, about in tasks.items() if eligible(about)}
    fitting = [task for task, n in flops.items() if low <= n <= high and task not in excluded]
    selected = sorted(fitting, key=lambda task: task[::-1])[:SEARCHED]
    write_json(path, {"search": selected})
    return selected


def chunks(
    phases: Sequence[str], rounds: range, tasks: Sequence[str], search: Sequence[str]
) -> Iterator[list[Job]]:
    """The jobs of one process after the other.

    Rounds go over all tasks in an order that mixes networks. A process first times again some of
    what the process before it has timed.
    """
    groups = _groups(tasks)
    for turn in rounds:
        repeated: list[str] = []
        for group in [*groups, []]:
            jobs: list[Job] = []
            if "again" in phases:
                jobs += [("again", turn, task) for task in repeated]
            if "main" in phases:
                jobs += [("main", turn, task) for task in group]
            yield jobs
            repeated = [task for task in group if (int(task, 16) + turn) % AGAIN == 0]
        if "search" in phases:
            yield [("search", turn, task) for task in search]
    if "plain" in phases:
        every = _groups({*tasks, *search})
        yield from ([("plain", 0, task) for task in group] for group in every)
    if "threads" in phases:
        for group in groups:
            yield [
                ("threads", rounds.start, task) for task in group if int(task, 16) % THREADED == 0
            ]


def _groups(tasks: Collection[str]) -> list[list[str]]:
    """Tasks in the order of their hashes, as many together as one process is given."""
    order = sorted(tasks)
    return [order[k : k + JOBS] for k in range(0, len(order), JOBS)]


def to_do(work: Path, jobs: Sequence[Job], once_more: Collection[Job] = ()) -> list[Job]:
    """The jobs without a result, or in ``once_more``, that nothing stands in the way of."""
    todo = []
    for phase, turn, task in jobs:
        done = (phase, turn, task) not in once_more and raw.path(work, phase, turn, task).exists()
        given_up = raw.failed(work, phase, turn, task).exists()
        first = raw.REPEATING.get(phase)
        missing = first is not None and not raw.path(work, first, turn, task).exists()
        if not (done or given_up or missing):
            todo.append((phase, turn, task))
    return todo


def chosen_tasks(
    work: Path, networks: Sequence[str], among: Collection[str] | None = None
) -> list[str]:
    """The eligible tasks of some networks.

    Args:
        work: the work folder.
        networks: names of networks.
        among: hashes of tasks, all other tasks are left out; ``None`` for no such limit.

    Raises:
        UserError: there is none.
    """
    tasks, calls = tasks_of(work), networks_of(work)
    called = {task for name in networks for task in calls[name]}
    hashes = sorted(t for t in called if eligible(tasks[t]) and (among is None or t in among))
    if not hashes:
        which = "" if among is None else "among those that were named "
        raise UserError(f"no task of these networks {which}has enough schedules to measure")
    return hashes


def named_tasks(path: Path) -> list[str]:
    """The tasks that a file names, a line each: hashes, or names that end in a dot and a hash.

    Raises:
        DataError: a line is neither.
    """
    text = read_regular(path, MOST_TEXT).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines()]
    hashes = [line.rpartition(".")[2] for line in lines if line and not line.startswith("#")]
    for task in hashes:
        if not HASH.fullmatch(task):
            raise DataError(path, "task", repr(task), "16 hexadecimal digits, a line each task")
    return hashes
