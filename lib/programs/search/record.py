"""The schedules that a search has found so far, task by task, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lib.files.terminal import table
from lib.programs.messages import OURS

BUSY = 0.2  # share of the time for which other work has the core


@dataclass
class TaskSearch:
    """The search of one task.

    Attributes:
        task: its hash.
        calls: how often the network calls it.
        operators: what it computes.
        unscheduled: seconds without a schedule, or with no more than its steps joined; NaN if the
            search has not come to it.
        seconds: of each measured program, in the order of measuring; NaN where one does not run.
        known_at: seconds into this search of the task when each was known; 0 if one before it was
            killed has measured it.
    """

    task: str
    calls: int
    operators: str = ""
    unscheduled: float = float("nan")
    seconds: list[float] = field(default_factory=list)
    known_at: list[float] = field(default_factory=list)

    def best(self) -> np.ndarray:
        """Return (n,) the fastest program after each measurement, infinite before there is one."""
        taken = np.array(self.seconds, np.float64)
        return np.minimum.accumulate(np.where(np.isfinite(taken), taken, np.inf))

    @property
    def discarded(self) -> int:
        """Number of measured programs of no use: they do not run, or compute something else."""
        return int(np.isnan(np.array(self.seconds, np.float64)).sum())

    @property
    def fastest(self) -> float:
        """Seconds of the program that is deployed, NaN if none is known."""
        known = [x for x in (*self.seconds, self.unscheduled) if np.isfinite(x)]
        return min(known, default=float("nan"))


@dataclass
class SearchRecord:
    """A whole search.

    Attributes:
        network, device, cost_model: what was searched, for what, and by what.
        budget: programs of each task.
        tasks: in the order in which they are searched.
        whole: seconds of the network with the schedules that were found (:data:`OURS`), and of
            what else can run it, by name.
        difference: of its results from the original's, over the largest of these.
        waited: share of the time of these runs for which other work had the core.
    """

    network: str
    device: str
    cost_model: str
    budget: int
    tasks: list[TaskSearch] = field(default_factory=list)
    whole: dict[str, float] = field(default_factory=dict)
    difference: float = 0.0
    waited: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return all of it; ``None`` for a program that does not run, or has not been run."""

        def known(seconds: float) -> float | None:
            """Return ``None`` for what is not finite."""
            return seconds if np.isfinite(seconds) else None

        tasks = [
            {
                **vars(task),
                "unscheduled": known(task.unscheduled),
                "seconds": [known(seconds) for seconds in task.seconds],
            }
            for task in self.tasks
        ]
        return {**vars(self), "tasks": tasks}


def as_table(tasks: Sequence[TaskSearch]) -> str:
    """Return a row a task: its fastest program, and how many programs were discarded, if any."""
    lost = any(task.discarded for task in tasks)
    whole = sum(task.calls * task.fastest for task in tasks) or 1.0
    texts = [
        [
            task.operators[:40],
            task.task[:8],
            str(task.calls),
            str(len(task.seconds)),
            *([str(task.discarded)] if lost else []),
            f"{1e3 * task.fastest:.3g}",
            f"{100 * task.calls * task.fastest / whole:.1f}%",
        ]
        for task in tasks
    ]
    discarded = ["discarded"] if lost else []
    return table(texts, ["task", "", "calls", "measured", *discarded, "ms", "of all"])


def warning(tasks: Sequence[TaskSearch]) -> str:
    """Name the tasks that have lost all their programs, in one line; nothing if none has."""
    lost = [task for task in tasks if task.seconds and task.discarded == len(task.seconds)]
    if not lost:
        return ""
    names = ", ".join(f"{task.operators} {task.task[:8]}" for task in lost)
    why = "do not run in time, or compute something else than without a schedule"
    return f"warning: all measured programs of {names} were discarded: they {why}"


def busy(record: SearchRecord) -> str:
    """Say in one line that other work had the core while a network was timed; nothing if not."""
    if record.waited < BUSY:
        return ""
    what = f"warning: other work had the core for {record.waited:.0%} of the time of these runs"
    return f"{what}: where it is idle, the same command times them again; ARGS='--core 0' names one"


def summary(record: SearchRecord) -> str:
    """Say how long the network takes, and with other frameworks, in one line."""
    text = f"programs {1e3 * sum(task.calls * task.fastest for task in record.tasks):.3g} ms"
    if record.whole:
        seconds = record.whole[OURS]
        others = [
            f"{name} {1e3 * taken:.3g} ms, {taken / seconds:.2f} times as long"
            for name, taken in record.whole.items()
            if name != OURS
        ]
        ours = f"the network {1e3 * seconds:.3g} ms, off by {record.difference:.0e}"
        text = "; ".join([text, ours, *others])
    return f"search: {record.network} on {record.device}: {text}"
