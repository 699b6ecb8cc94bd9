"""A network as the environment with TVM wrote it: its calls, its tasks, and programs of each.

See :mod:`lib.collect.tvm.whole`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.programs.inputs import Programs, described_programs
from lib.programs.latency.memory import Traffic
from lib.programs.tensorir.described import ARRAYS


@dataclass(frozen=True, eq=False)
class Network:
    """A network's calls, tasks and programs.

    Attributes:
        name: the network's.
        calls: (task, numbers of the calls that it waits for), in the order of the code.
        traffic: of each call, what it reads of weights and inputs, and writes.
        operators: what each task computes.
        programs: under the schedules that were drawn, without latencies; those of a task are
            together, in the order of the tasks.
        schedules: (n,) which schedule each is, by its hash.
    """

    name: str
    calls: tuple[tuple[int, tuple[int, ...]], ...]
    traffic: tuple[Traffic, ...]
    operators: tuple[str, ...]
    programs: Programs
    schedules: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """(tasks,) how often each is called."""
        return np.bincount([task for task, _ in self.calls], minlength=len(self.operators))


def read_network(path: Path) -> Network:
    """Read the file that the half with TVM has just written."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in (*ARRAYS, "owner", "about")}
    metadata = json.loads(arrays.pop("about").item())
    tasks, calls = metadata["tasks"], metadata["calls"]
    names = [task["task"] for task in tasks]
    programs = described_programs(arrays, names, arrays["owner"])
    return Network(
        name=metadata["network"],
        calls=tuple((call["task"], tuple(call["after"])) for call in calls),
        traffic=tuple(Traffic(dict(call["reads"]), call["writes"]) for call in calls),
        operators=tuple(task["operators"] for task in tasks),
        programs=programs,
        schedules=arrays["hash"][arrays["joined"].astype(bool)],
    )
