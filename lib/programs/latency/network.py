"""A network as the environment with TVM wrote it: its calls, its tasks, and programs of each.

See :mod:`lib.collect.tvm.whole`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.files.foreign import reading
from lib.files.schema import expect
from lib.programs.inputs import Programs, described_programs
from lib.programs.latency.memory import Traffic
from lib.programs.latency.replay import Node, replay
from lib.programs.tensorir.described import ARRAYS

EXPECTED = "a network as lib.collect.tvm.whole writes it"
METADATA = {
    "network": str,
    "seed": int,
    "calls": [{"task": int, "after": [int], "reads": [[int]], "writes": int}],
    "tasks": [{"task": str, "operators": str}],
}
MOST_BYTES = 1 << 31  # of all arrays together


@dataclass(frozen=True, eq=False)
class Network:
    """A network's calls, tasks and programs.

    Attributes:
        name: the network's.
        calls: (task, numbers of the calls that it waits for), in the order of the code.
        traffic: of each call, what it reads of weights and inputs, and writes.
        hashes, operators: of each task: which it is, and what it computes.
        programs: under the schedules that were drawn, without latencies; those of a task are
            together, in the order of the tasks.
        owner: (n,) which task each program is of.
        schedules: (n,) which schedule each is, by its hash.
    """

    name: str
    calls: tuple[tuple[int, tuple[int, ...]], ...]
    traffic: tuple[Traffic, ...]
    hashes: tuple[str, ...]
    operators: tuple[str, ...]
    programs: Programs
    owner: np.ndarray
    schedules: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """(tasks,) how often each is called."""
        return np.bincount([task for task, _ in self.calls], minlength=len(self.hashes))


def read_network(path: Path) -> Network:  # longer: one check after the other
    """Read and check the file.

    Raises:
        DataError: it is none, or it says what cannot be.
    """
    with reading(path, "npz", EXPECTED):
        with np.load(path, allow_pickle=False) as file:
            size = sum(entry.file_size for entry in file.zip.infolist())
            if size > MOST_BYTES:
                raise DataError(path, "npz", f"{size} bytes", f"up to {MOST_BYTES}")
            arrays = {name: file[name] for name in (*ARRAYS, "owner", "about")}
        metadata = json.loads(arrays.pop("about").item())
    expect(metadata, METADATA, path, advice=EXPECTED)
    tasks = metadata["tasks"]
    calls = tuple((call["task"], tuple(call["after"])) for call in metadata["calls"])
    if not calls or not tasks:
        raise DataError(path, "calls", "none", "at least one call of a task")
    if {task for task, _ in calls} != set(range(len(tasks))):
        raise DataError(path, "calls", "other tasks", f"all of 0 to {len(tasks) - 1} and no other")
    try:
        replay([Node(0.0, after) for _, after in calls])
    except ValueError as error:
        raise DataError(path, "calls", error, "a graph without circles") from None
    traffic = []
    for call in metadata["calls"]:
        numbers = [call["writes"], *(x for pair in call["reads"] for x in pair)]
        if any(len(pair) != 2 for pair in call["reads"]) or min(numbers) < 0:
            raise DataError(path, "reads", call["reads"], "pairs of a number and bytes, from 0")
        traffic.append(Traffic({number: size for number, size in call["reads"]}, call["writes"]))
    owner, joined = arrays["owner"], arrays["joined"].astype(bool)
    whole = owner.ndim == 1 and owner.dtype.kind in "iu" and owner.shape == joined.shape
    if not whole or (np.diff(owner) < 0).any():
        raise DataError(path, "owner", "another order", "a task for each program, ascending")
    if not np.array_equal(np.unique(owner[joined]), np.arange(len(tasks))):
        raise DataError(path, "owner", "a task without a program", "programs of every task")
    programs = described_programs(arrays, [task["task"] for task in tasks], owner)
    return Network(
        name=metadata["network"],
        calls=calls,
        traffic=tuple(traffic),
        hashes=programs.tasks,
        operators=tuple(task["operators"] for task in tasks),
        programs=programs,
        owner=owner[joined],
        schedules=arrays["hash"][joined],
    )
