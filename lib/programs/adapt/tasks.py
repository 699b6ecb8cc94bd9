"""Which tasks are chosen for measuring, and how a user measures them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.programs.adapt.case import all_programs, pooled_rows
from lib.programs.adapt.sampling import choose_tasks
from lib.programs.inputs import Programs, load_programs
from lib.programs.task import networks_of

LISTED = "tasks.txt"


def choose(programs: Programs, among: np.ndarray, choice: Mapping[str, Any]) -> np.ndarray:
    """Numbers of the chosen tasks.

    Args:
        programs: of all tasks.
        among: (tasks,) bool, which may be chosen.
        choice: ``method, count, seed`` of :func:`lib.programs.adapt.sampling.choose_tasks`.
    """
    numbers, allowed = np.flatnonzero(among), among[programs.task]
    first = np.concatenate([[0], np.cumsum(np.diff(programs.first)[among])])
    return numbers[choose_tasks(rows=pooled_rows(programs)[allowed], first=first, **choice)]


def write_tasks(path: Path, names: list[str]) -> None:
    """Write the names of the chosen tasks, a line each, in their order."""
    with atomic_file(path) as temporary:
        temporary.write_text("".join(f"{name}\n" for name in names))


def measuring_advice(
    cache: Cache, folder: Path, target: str, choice: Mapping[str, Any], data: Path
) -> str:
    """Choose tasks for a device that there are no data of; returns what to do next.

    Args:
        cache: of the data.
        folder: for the list of tasks.
        target: the name that the device was given.
        choice: see :func:`choose`.
        data: root of the data.
    """
    programs = load_programs(cache, all_programs(cache, "train", "valid"))
    chosen = choose(programs, np.ones(len(programs.tasks), bool), choice)
    names = [programs.tasks[k] for k in chosen]
    path = folder / LISTED
    write_tasks(path, names)
    networks = ",".join(covering({name: networks_of(cache.rows[name]) for name in names}))
    devices = ", ".join(device["name"] for device in cache.manifest["devices"])
    root = folder / "data"
    return (
        "On the new device, with an instruction set that it has, into a copy of the data:\n"
        f"  make collect KIND=programs NETWORKS={networks!r} ROUNDS=2 "
        f'ARGS="--tasks {path} --devices avx2"\n'
        f"  cp -r {data} {root}\n"
        f"  .venv/bin/python -m lib.collect.tvm.export outputs/collect-programs {root} --add\n"
        f"  make adapt DATA={root} DEVICE=its-name TASKS={len(names)}\n"
        f"adapt: {target} is none of {devices}; chose {len(names)} of {len(programs.tasks)} tasks "
        f"to measure; wrote {path}"
    )


def covering(called: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Few networks that call all of some tasks, sorted; picked by most new tasks first."""
    left = {task for task, networks in called.items() if networks}
    every = sorted({network for networks in called.values() for network in networks})
    picked = []
    while left:
        called_by = {name: {task for task in left if name in called[task]} for name in every}
        best = max(every, key=lambda name: len(called_by[name]))
        picked.append(best)
        left -= called_by[best]
    return sorted(picked)
