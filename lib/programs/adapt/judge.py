"""How far predicted latencies are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from lib.files.terminal import table
from lib.programs.metrics import ERRORS, LEAST_PROGRAMS, ORDERS

SHOWN = (*ERRORS[:2], *ORDERS[:2])  # MAPE, median, tau, top-1
COUNT = "latencies"


def judged(
    predicted: np.ndarray, seconds: np.ndarray, first: np.ndarray, among: np.ndarray
) -> dict[str, float]:
    """Every number by key: errors over latencies, orders within tasks, and how many latencies.

    Args:
        predicted: (n, d) logarithms of seconds; what is NaN does not count.
        seconds: (n, d) measured on d devices; NaN where nothing was.
        first: (tasks + 1,) where each task's programs begin.
        among: (n,) bool, which programs count.
    """
    counts = among[:, None] & np.isfinite(seconds) & np.isfinite(predicted)
    numbers: dict[str, float] = {COUNT: int(counts.sum())}
    if not numbers[COUNT]:
        return numbers
    pair = np.exp(predicted), seconds
    numbers |= {metric.key: metric.compute(*(x[counts] for x in pair)) for metric in ERRORS}
    orders = []
    for device in range(seconds.shape[1]):
        for start, stop in pairwise(first):
            rows = np.arange(start, stop)[counts[start:stop, device]]
            if len(rows) >= LEAST_PROGRAMS:
                orders.append(
                    [metric.compute(*(x[rows, device] for x in pair)) for metric in ORDERS]
                )
    if orders:
        means = np.mean(orders, axis=0)
        numbers |= {metric.key: float(value) for metric, value in zip(ORDERS, means, strict=True)}
    return numbers


def text_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Errors of each method in each section, as aligned text.

    Args:
        rows: with ``section`` and ``method``, and the numbers of :func:`judged`; those of a section
            one after the other.
    """
    shown: list[list[str]] = []
    for section, group in groupby(rows, key=lambda row: row["section"]):
        methods = list(group)
        most = max(row[COUNT] for row in methods)
        shown.append([section, f"{most:,.0f}", *[""] * len(SHOWN)])
        for row in methods:
            count = "" if row[COUNT] == most else f"{row[COUNT]:,.0f}"
            texts = [metric.plain(row.get(metric.key)) for metric in SHOWN]
            shown.append([f"  {row['method']}", count, *texts])
    return table(shown, ["", COUNT, *(metric.heading for metric in SHOWN)])
