"""From what a few graphs took to what all of them will.

A step, a score and a file take a time that grows with a graph's size. For each, the formula below is
fitted to the measured graphs by non-negative least squares of relative errors:

    file      a (configurations x configurable nodes) + b nodes + c
    step      a (kept nodes x configurations of the step) + b kept nodes + c
    score     a kept nodes + b

``kept`` are the nodes that pruning keeps. Memory is fitted likewise: of a worker by what a file has, of
training and inference by what a step has. Kernels are so small that a step and a kernel take their
mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from lib.forecast.measure import Unit
from lib.settings import Settings
from lib.tpugraphs.sizes import GraphSize

WEIGHTS_COPIES = 6  # last, best, two moments, state: what a fold writes at most at a time
SCORE_BYTES = 11  # of a row of a score parquet, measured
BLEND_ROWS = 2e6  # rows of scores that stage 4 blends a second, measured
Terms = Callable[["Shape"], tuple[float, ...]]


@dataclass(frozen=True)
class Shape:
    """What formulae read of a graph: nodes, kept ones, configurable ones, configurations, a step's."""

    nodes: float
    kept: float
    configurable: float
    configurations: float
    batch: float


@dataclass(frozen=True)
class Forecast:
    """What a stage takes: seconds of wall-clock time, bytes of memory of a process and of disk.

    Attributes:
        seconds: of all that was asked for, with the jobs that were asked for.
        each: seconds of one job: a fold; of stage 1, all files by one process.
        memory: of one process.
        device_memory: on a GPU, of one process.
        disk: of what it leaves, of all folds.
    """

    seconds: float
    each: float
    memory: float
    disk: float
    device_memory: float = 0.0


FILE: Terms = lambda s: (s.configurations * s.configurable, s.nodes, 1.0)  # noqa: E731
STEP: Terms = lambda s: (s.kept * s.batch, s.kept, 1.0)  # noqa: E731
SCORE: Terms = lambda s: (s.kept, 1.0)  # noqa: E731


def fitted(
    shapes: Sequence[Shape], values: Sequence[float], terms: Terms
) -> Callable[[Shape], float]:
    """The formula of ``terms`` that fits the values best, no coefficient below 0.

    Args:
        shapes: of the measured graphs.
        values: what they took, above 0.
        terms: of the formula.
    """
    rows = np.array([terms(shape) for shape in shapes])
    known = np.asarray(values, np.float64)
    scale = rows.max(0)
    found, _ = nnls(rows / scale / known[:, None], np.ones(len(known)))
    coefficients = found / scale
    return lambda shape: float(np.dot(coefficients, terms(shape)))


def forecast(
    graphs: Sequence[GraphSize], units: Sequence[Unit], settings: Settings, folds: int, jobs: int
) -> dict[str, Forecast]:
    """What each stage will take.

    Args:
        graphs: of the collection.
        units: what was measured.
        settings: of the collection.
        folds: that are trained, in turn, ``jobs`` at a time.
        jobs: processes at a time; that they slow each other is not reckoned with.
    """
    ratio = np.mean([unit.kept / max(1.0, unit.configurable) for unit in units])
    shapes = [_shape(one, ratio, settings) for one in graphs]
    reckon = _Reckoning(units, settings)
    rounds = math.ceil(folds / jobs)
    files = sum(map(reckon.file, shapes))
    train, infer = reckon.train(graphs, shapes), reckon.infer(graphs, shapes)
    rows = reckon.score_rows(graphs)
    fold = Forecast(
        rounds * train, train, reckon.train_memory(shapes), folds * reckon.weight_bytes(),
        max(unit.device_memory for unit in units),
    )  # fmt: skip
    blended = rows * min(folds, settings.best_folds) / BLEND_ROWS
    return {
        "preprocess": Forecast(
            files / min(jobs, len(shapes)), files, max(map(reckon.file_memory, shapes)),
            sum(map(reckon.cache_bytes, shapes)),
        ),
        "train": fold,
        "infer": Forecast(
            rounds * infer, infer, reckon.infer_memory(shapes), folds * rows * SCORE_BYTES
        ),
        "ensemble": Forecast(blended, blended, 16.0 * rows * folds, 0.0),
    }  # fmt: skip
