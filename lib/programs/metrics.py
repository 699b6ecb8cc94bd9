"""Errors of predicted latencies: relative and absolute errors, and the order within a task.

A *pair* is a program on a device. Numbers of one task are over all of its pairs; the order is that
of a task's programs on one device, and counts where there are at least ``LEAST_PROGRAMS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lib.programs.task import CachedTask
from lib.programs.tensorir.records import first_operator
from lib.ranking.measures import Measures
from lib.ranking.metrics import SLOWDOWNS, TAU, Metric

LEAST_PROGRAMS = 8  # of a task on a device, for their order to count


def mape(predicted: np.ndarray, seconds: np.ndarray) -> float:
    """Return the mean of |predicted - measured| / measured, of latencies in one unit."""
    return float(np.mean(np.abs(predicted / seconds - 1)))


def median_error(predicted: np.ndarray, seconds: np.ndarray) -> float:
    """Return the median of |predicted - measured| / measured."""
    return float(np.median(np.abs(predicted / seconds - 1)))


def rmse(predicted: np.ndarray, seconds: np.ndarray) -> float:
    """Return the root of the mean squared error, in milliseconds, of latencies in seconds."""
    return 1e3 * float(np.sqrt(np.mean(np.square(predicted - seconds))))


MAPE = Metric(
    key="mape",
    name="MAPE",
    heading="MAPE",
    compute=mape,
    higher_is_better=False,
    decimals=1,
    percent=True,
    least=0.0,
    explained="mean of |predicted − measured| / measured, over programs and devices",
)
MEDIAN = replace(
    MAPE,
    key="median_error",
    name="median error",
    heading="median",
    compute=median_error,
    explained="half of the predictions are nearer than that, relative to the measured latency",
)
RMSE = replace(
    MAPE,
    key="rmse",
    name="RMSE (ms)",
    heading="RMSE ms",
    compute=rmse,
    decimals=3,
    percent=False,
    explained="root of the mean squared error, in milliseconds: the slowest programs decide it",
)
ERRORS = (MAPE, MEDIAN, RMSE)
ORDERS = (TAU, *SLOWDOWNS[:2])  # within a task on one device
LATENCY_METRICS = (*ERRORS, *ORDERS)
TASK_MEAN = replace(
    MAPE,
    key="task_mean_mape",
    name="task’s mean",
    heading="task mean",
    compute=None,
    explained=(
        "every program of a task gets the task's mean on the device, which nobody knows beforehand"
    ),
)
NOISE = replace(
    MAPE,
    key="noise_mape",
    name="noise floor",
    heading="noise",
    compute=None,
    explained="how far a second process measured the same programs from the first",
)


def measure_task(predicted: np.ndarray, seconds: np.ndarray, task: CachedTask) -> dict[str, float]:
    """Return every number of one task, by key; those that cannot be computed are absent.

    Args:
        predicted, seconds: (pairs,) latencies in seconds.
        task: whose pairs these are.
    """
    numbers = {metric.key: metric.compute(predicted, seconds) for metric in ERRORS}
    numbers |= _orders(predicted, seconds, task.device)
    return numbers | task_references(seconds, task)


def _orders(predicted: np.ndarray, seconds: np.ndarray, device: np.ndarray) -> dict[str, float]:
    """Return the mean over devices of each number of an order."""
    rows = []
    for number in np.unique(device):
        mask = device == number
        if mask.sum() >= LEAST_PROGRAMS:
            rows.append([metric.compute(predicted[mask], seconds[mask]) for metric in ORDERS])
    means = np.mean(rows, axis=0).tolist() if rows else []
    return {metric.key: value for metric, value in zip(ORDERS, means, strict=bool(rows))}


def task_references(seconds: np.ndarray, task: CachedTask) -> dict[str, float]:
    """Return the error of the task's mean, and the noise floor where a second process measured."""
    logarithms, means = np.log(seconds.astype(np.float64)), np.empty(len(seconds))
    for device in np.unique(task.device):
        mask = task.device == device
        means[mask] = logarithms[mask].mean()
    numbers = {TASK_MEAN.key: mape(np.exp(means), seconds)}
    twice = np.isfinite(task.again)
    if twice.any():
        numbers[NOISE.key] = mape(task.again[twice], seconds[twice])
    return numbers


@dataclass(frozen=True)
class Predicted:
    """Predictions for a task's pairs.

    Attributes:
        task: restricted to the pairs.
        seconds: (pairs,) predicted.
    """

    task: CachedTask
    seconds: np.ndarray


def measure_groups(
    results: Sequence[Predicted], devices: Sequence[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return numbers over pairs and not over tasks: ``by -> group -> key -> value``.

    ``all`` has one group, ``device`` and ``operator`` one for each; each has ``pairs``.
    """
    tables: dict[str, dict[str, list[tuple[Predicted, np.ndarray]]]] = {
        name: {} for name in ("all", "device", "operator")
    }
    for result in results:
        every = np.ones(len(result.seconds), bool)
        parts = [("all", "all", every)]
        parts.append(("operator", first_operator(result.task.operators), every))
        parts += [("device", name, result.task.device == k) for k, name in enumerate(devices)]
        for name, group, mask in parts:
            if mask.any():
                tables[name].setdefault(group, []).append((result, mask))
    return {
        name: {group: _group(members) for group, members in sorted(groups.items())}
        for name, groups in tables.items()
    }


def _group(parts: Sequence[tuple[Predicted, np.ndarray]]) -> dict[str, float]:
    predicted = np.concatenate([result.seconds[mask] for result, mask in parts])
    seconds = np.concatenate([result.task.seconds[mask] for result, mask in parts]).astype(
        np.float64
    )
    again = np.concatenate([result.task.again[mask] for result, mask in parts])
    numbers: dict[str, float] = {"pairs": len(predicted)}
    numbers |= {metric.key: metric.compute(predicted, seconds) for metric in ERRORS}
    orders = [
        _orders(result.seconds[mask], result.task.seconds[mask], result.task.device[mask])
        for result, mask in parts
    ]
    for metric in ORDERS:
        values = [order[metric.key] for order in orders if metric.key in order]
        if values:
            numbers[metric.key] = float(np.mean(values))
    twice = np.isfinite(again)
    if twice.any():
        numbers[NOISE.key] = mape(again[twice], seconds[twice])
    return numbers


MEASURES = Measures(
    name="programs",
    metrics=LATENCY_METRICS,
    baseline=TASK_MEAN,
    ceiling=NOISE,
    chance=None,
    references=task_references,
    columns=(MAPE, MEDIAN, NOISE, TASK_MEAN, TAU, *SLOWDOWNS[:2]),
    listed=None,
    entry="",
    ordered=False,
    item="task",
    gains=(),
)
