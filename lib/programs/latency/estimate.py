"""The latency of a network: its programs predicted, its graph replayed, and what costs most."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.files.terminal import table
from lib.programs.latency.error import Error
from lib.programs.latency.memory import (
    FROM_MEMORY,
    FROM_SHARED,
    found_seconds,
    reading_seconds,
)
from lib.programs.latency.network import Network
from lib.programs.latency.replay import Node, Timeline, replay

SHOWN, NAME = 10, 40  # programs that cost most, and letters of what they compute
DIGITS = 6  # of seconds in JSON
# Seconds of a network, below which much of it are programs too small to have been measured, and
# calls: on a Xeon of model 207, 2 microseconds and .3 for each program.
TINY = 5e-5


@dataclass(frozen=True, eq=False)
class Estimate:
    """The predicted latency of a network on a device.

    Attributes:
        network, device: of it; the device's name.
        fastest: (tasks,) which program of each task it runs.
        seconds: (tasks,) that they are predicted to take, one call each.
        timeline: of its calls.
        error: factors on the programs' seconds.
        latency: low, middle and high, in seconds: the graph replayed with each factor.
        known: numbers of the tasks that the predictor has learned from.
    """

    network: Network
    device: str
    fastest: np.ndarray
    seconds: np.ndarray
    timeline: Timeline
    error: Error
    latency: tuple[float, float, float]
    known: frozenset[int]


def estimate(
    network: Network,
    device: str,
    predicted: np.ndarray,
    error: Error,
    learned: Collection[str],
    gap: float = 0.0,
    warm: bool = True,
) -> Estimate:
    """Replay a network with the fastest of each task's programs.

    Args:
        network: its graph and programs.
        device: its name.
        predicted: (n,) seconds of the programs.
        error: see :mod:`lib.programs.latency.error`.
        learned: hashes of the tasks that the predictor has learned from.
        gap: seconds between the end of a call and the begin of the next.
        warm: whether the programs of the device were measured with their weights in the caches,
            where a network has not left them; else, steps of recurrent networks find them there.
    """
    task = network.programs.task
    order = np.lexsort((np.arange(len(predicted)), predicted, task))
    fastest = order[np.unique(task[order], return_index=True)[1]]  # the first of equal ones
    seconds = predicted[fastest]
    gaps = [gap + wait * warm for wait in reading_seconds(network.traffic)]
    found = [saved * (not warm) for saved in found_seconds(network.traffic)]

    def least(taken: float, saved: float) -> float:
        """Return seconds of a call, of which all may be spent on reading weights."""
        return max(taken - saved, taken * FROM_MEMORY / FROM_SHARED)

    def replayed(factor: float) -> Timeline:
        """Return the graph, if programs take so many times what is predicted."""
        return replay(
            [
                Node(factor * least(float(seconds[task]), saved), after, gap=between)
                for (task, after), between, saved in zip(network.calls, gaps, found, strict=True)
            ]
        )

    latency = tuple(replayed(factor).seconds for factor in (error.low, error.middle, error.high))
    known = frozenset(k for k, name in enumerate(network.programs.tasks) if name in learned)
    return Estimate(network, device, fastest, seconds, replayed(1.0), error, latency, known)


def costs(estimated: Estimate) -> list[dict[str, Any]]:
    """Return a row a task, the task that costs most in all its calls first."""
    network, counts = estimated.network, estimated.network.counts
    total = float(counts @ estimated.seconds)
    order = np.argsort(-(counts * estimated.seconds), kind="stable")
    return [
        {
            "operators": network.operators[task],
            "task": network.programs.tasks[task],
            "schedule": str(network.schedules[estimated.fastest[task]]),
            "calls": int(counts[task]),
            "seconds": _rounded(estimated.seconds[task]),
            "share": round(float(counts[task] * estimated.seconds[task]) / total, 4),
            "learned": int(task) in estimated.known,
        }
        for task in order
    ]


def as_json(estimated: Estimate) -> dict[str, Any]:
    """Return all that is known, for machines; times are in seconds."""
    low, middle, high = map(_rounded, estimated.latency)
    return {
        "network": estimated.network.name,
        "device": estimated.device,
        "seconds": middle,
        "low": low,
        "high": high,
        "replayed_seconds": _rounded(estimated.timeline.seconds),
        "error_networks": estimated.error.networks,
        "calls": len(estimated.network.calls),
        "tasks": costs(estimated),
        "timeline": [
            {
                "task": estimated.network.programs.tasks[estimated.network.calls[run.node][0]],
                "engine": run.engine,
                "start": _rounded(run.start),
                "end": _rounded(run.end),
            }
            for run in estimated.timeline.runs
        ],
    }


def as_text(estimated: Estimate) -> str:
    """Return the programs that cost most, and the latency, for people."""
    rows = [
        [
            task["operators"][:NAME],
            str(task["calls"]),
            _milliseconds(task["seconds"]),
            _milliseconds(task["seconds"] * task["calls"]),
            f"{task['share']:.1%}",
            "yes" if task["learned"] else "no",
        ]
        for task in costs(estimated)
    ]
    head = ["program", "calls", "ms a call", "ms", "share", "task learned"]
    network, (low, middle, high) = estimated.network, estimated.latency
    bar = f"two networks in three: {_milliseconds(low)} to {_milliseconds(high)}"
    if not estimated.error.networks:
        bar = "too few networks to tell how far off"
    elif middle < TINY:
        bar += ", of programs; below 0.05 ms calls count as much, and it may be far off"
    return (
        f"{table(rows[:SHOWN], head)}\n"
        f"latency: {network.name} on {estimated.device}: {_milliseconds(middle)} ms ({bar}); "
        f"{len(network.calls)} calls of {len(network.programs.tasks)} programs, "
        f"{len(estimated.known)} of them of tasks that the predictor has learned from"
    )


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{DIGITS}g}")
