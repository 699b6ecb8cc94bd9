"""Errors of networks' predicted latencies, from networks that no fold had learned from.

Each network of the dataset is added up twice, from what its programs were predicted to take by a
fold that had not seen it, and from what they were measured to take. Of each task it runs the
program with the least prediction of a few drawn at random, as a new network does: so that what a
choice by predictions does to their errors is in the ratio. After a search it runs the fastest of
them as measured, for a search measures them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import polars as pl

from lib.files import tensor_file
from lib.files.errors import DataError
from lib.files.parquet import read_parquet
from lib.files.schema import expect
from lib.programs.predictions import read_blended
from lib.programs.tensorir.records import ADVICE, TABLES, table_path

# Of a network's calls whose tasks were measured, for it to count; its tasks as PyTorch has them and
# as they are deployed are both among them.
LEAST_SHARE = 0.25
DRAWS = 20  # of programs, for each network
QUANTILES = (0.16, 0.5, 0.84)
FEWEST = 5  # networks
COUNTS = (1, 4, 8, 16, 32, 64)  # of schedules of a task, for which bundled weights have errors
HOW = ("drawn", "searched")  # programs at random, or after a search
# What is predicted to be fastest is predicted too low, the more so the more there is to choose
# from, and the less so the more folds are blended. Natural logarithm for each doubling of the
# programs, of one fold over a blend of any number: of 30 search tasks of data/programs-cpu.
OF_BLEND = {"drawn": 0.021, "searched": 0.010}
ERRORS = {"errors": {str: {str: {int: [float]}}}}
Task = tuple[np.ndarray, np.ndarray]  # predicted and measured seconds of its programs
Calls = Mapping[str, Mapping[str, int]]  # of each network: how often it calls each task


@dataclass(frozen=True)
class Error:
    """Factors on a predicted latency: its low, its middle and its high.

    Attributes:
        low, middle, high: quantiles of measured over predicted, see ``QUANTILES``.
        networks: that they are of.
    """

    low: float
    middle: float
    high: float
    networks: int


def error_of(
    tasks: Mapping[str, Task], calls: Calls, schedules: int, searched: bool = False, seed: int = 0
) -> Error:
    """Return quantiles of measured over predicted, over networks and draws; see :func:`ratios_of`.

    Returns:
        Ones and no networks if there are too few of them.
    """
    ratios = ratios_of(tasks, calls, schedules, searched, seed)
    if len(ratios) < FEWEST:
        return Error(1.0, 1.0, 1.0, 0)
    every = np.concatenate([*ratios.values()])
    return Error(*np.quantile(every, QUANTILES).tolist(), len(ratios))


def of_blend(error: Error, folds: int, schedules: int, searched: bool) -> Error:
    """Return the error of a blend, from that of networks which one fold predicts.

    Args:
        error: of those.
        folds: that are blended.
        schedules, searched: as for :func:`error_of`.
    """
    if not error.networks:
        return error
    share = 1 - 1 / folds  # of a fold's variance that the blend is without
    times = math.exp(-OF_BLEND[HOW[searched]] * share * math.log2(schedules))
    return Error(error.low * times, error.middle * times, error.high * times, error.networks)


def ratios_of(
    tasks: Mapping[str, Task], calls: Calls, schedules: int, searched: bool = False, seed: int = 0
) -> dict[str, np.ndarray]:
    """Return (draws,) measured over predicted seconds of each network of which enough was measured.

    Args:
        tasks: programs that were measured, predicted by who has not seen them, by task.
        calls: of networks.
        schedules: how many programs of a task are drawn, at most.
        searched: whether all of these are measured, and the fastest runs.
        seed: of the draws.
    """
    generator = np.random.default_rng(seed)
    ratios = {}
    for name, called in sorted(calls.items()):
        measured = {task: times for task, times in called.items() if task in tasks}
        if not measured or sum(measured.values()) < LEAST_SHARE * sum(called.values()):
            continue
        sums = np.zeros((DRAWS, 2))  # seconds, measured and predicted, of programs drawn anew
        for draw in range(DRAWS):
            for task, times in sorted(measured.items()):
                predicted, took = tasks[task]
                drawn = generator.permutation(len(predicted))[:schedules]
                best = drawn[np.argmin(predicted[drawn])]
                runs = took[drawn].min() if searched else took[best]
                sums[draw] += times * np.array([runs, predicted[best]])
        ratios[name] = sums[:, 0] / sums[:, 1]
    return ratios


def held_out(path: Path, device: str) -> dict[str, Task]:
    """Read the predictions of programs that a fold, or all, had not seen, by task.

    Args:
        path: ``predictions.csv``.
        device: its name.

    Raises:
        DataError: the file is missing, or is not what stage 4 writes.
    """
    rows = read_blended(path).filter(device=device).sort("task", "program")
    parts = rows.partition_by("task", as_dict=True, maintain_order=True)
    return {
        task: (frame["in_sums"].to_numpy(), frame["latency"].cast(pl.Float64).to_numpy())
        for (task,), frame in parts.items()
    }


def calls_of(root: Path) -> dict[str, dict[str, int]]:
    """Count how often each network of a dataset calls its tasks, by the names of a cache.

    Raises:
        DataError: a table is missing or damaged.
    """
    networks, tasks = (
        read_parquet(table_path(root, name), TABLES[name], ADVICE) for name in ("networks", "tasks")
    )
    names = [f"{task['operators']}.{task['task']}" for task in tasks.iter_rows(named=True)]
    calls: dict[str, dict[str, int]] = {}
    for row in networks.iter_rows(named=True):
        if not 0 <= row["task"] < len(names):
            raise DataError(table_path(root, "networks"), "task", row["task"], "a row of the tasks")
        calls.setdefault(row["network"], {})[names[row["task"]]] = row["calls"]
    return calls


def errors_of(path: Path, device: str, calls: Calls) -> dict[str, dict[str, list[float]]]:
    """Return what :func:`bundled_error` reads of a device: an error for each of :data:`COUNTS`, of
    programs drawn at random and after a search.

    Args:
        path: ``predictions.csv``.
        device: its name.
        calls: of networks.
    """
    tasks = held_out(path, device)
    return {
        how: {str(n): [*astuple(error_of(tasks, calls, n, bool(searched)))] for n in COUNTS}
        for searched, how in enumerate(HOW)
    }


def bundled_error(weights: Path, device: str, schedules: int) -> Error:
    """Read the error of bundled weights on a device, after a search of nearly so many schedules.

    Raises:
        DataError: they say nothing of it.
    """
    path = next(weights.glob("fold_*/*"))
    said = expect(tensor_file.read_metadata(path), ERRORS, path, advice="make weights")["errors"]
    count = min(COUNTS, key=lambda count: abs(math.log(count / schedules)))
    if device not in said:
        raise DataError(path, "errors", f"none of {device}", "its errors; make weights")
    low, middle, high, networks = said[device]["searched"][str(count)]
    return Error(low, middle, high, int(networks))
