"""From what a few graphs took to what all of them will.

A step, a score and a file take a time that grows with a graph's size; memory does likewise, of a
worker by what a file has, of training and inference by what a step has. Each formula is fitted to
the measured graphs by non-negative least squares of relative errors:

    file      a (configurations x configurable nodes) + b kept nodes + c
    step      a (kept nodes x configurations of the step) + b kept nodes + c
    score     a kept nodes + b

``kept`` are the nodes that pruning keeps. Kernels are so small that a step and a kernel take their
mean. A process takes a while to begin and to read a fold's graphs, which counts where there is
little to do. What is measured has one graph at a time; training has all of a fold in memory
(:meth:`Costs.held_bytes`). A fold is the mean one: a share of what all labelled graphs take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from lib.cache.prune import ALL
from lib.inputs.input import input_of
from lib.settings import Settings
from lib.study.plan.measure import Unit
from lib.tpugraphs.sizes import GraphSize
from lib.train.schedule import passes_of

# Measured on parquets of 2.6 and 5.3 million rows (8 graphs of 66,000 configurations, 10
# permutations each): bytes of a row on disk, and what reading it and taking means takes.
SCORE_BYTES = 6.8
FRAME_BYTES = 2 * 16 + 4 + 2 + 8 + 8  # of a row in memory, before it is written
BLENDED_ROWS = 1.5e6  # a second
BLENDED_BYTES = 220  # of memory, one fold at a time
NODE_BYTES = 4 * 134 + 6 * 8 + 2 * 8  # of a prepared graph's node: features and digits
TOUCHED_BYTES = 1 << 16  # of a mapped file, that Linux brings to memory where one row is read
# Inputs whose graphs are all in memory while training.
HELD = ("lib.inputs.pruned:INPUT", "lib.inputs.copies:INPUT")


class Shape(NamedTuple):
    """What formulae read of a graph: kept nodes, configurable ones, configurations in all, and of
    a step."""

    kept: float
    configurable: float
    configurations: float
    batch: float


class Sides(NamedTuple):
    """Graphs with labels, of the test, and of other collections, to learn from as well."""

    labelled: Sequence[Shape]
    test: Sequence[Shape]
    beside: Sequence[Shape]


Terms = Callable[[Shape], tuple[float, ...]]


@dataclass(frozen=True)
class Forecast:
    """What a stage takes: seconds of wall-clock time, bytes of memory of a process and of disk.

    Attributes:
        seconds: of all that was asked for, with the jobs that were asked for.
        each: seconds of one job: a fold; of stage 1, all files by one process.
        memory: of one process.
        disk: of what it leaves, of all folds.
        device_memory: on a GPU, of one process.
    """

    seconds: float
    each: float
    memory: float
    disk: float
    device_memory: float = 0.0


class Costs:
    """The formulae of a collection and a model, fitted.

    Args:
        units: what was measured.
        settings: of the collection.
    """

    def __init__(self, units: Sequence[Unit], settings: Settings):
        self.settings, self.kernels = settings, settings.kind == "tile"
        self.held = 1 / settings.folds_total  # share of the labelled graphs that are validated on
        self.ratio = float(np.mean([unit.kept / max(1.0, unit.configurable) for unit in units]))
        shapes = [self._shape(u.kept, u.configurable, u.configurations) for u in units]

        def fit(name: str, terms: Terms) -> Callable[[Shape], float]:
            values = [getattr(unit, name) for unit in units]
            return fitted(shapes, values, constant if self.kernels else terms)

        self.file = fit("preprocess_seconds", of_a_file)
        self.file_memory = fit("preprocess_memory", of_a_file)
        self.cache_bytes = fit("cache_bytes", of_a_file)
        self.step = fit("step_seconds", of_a_step)
        self.step_memory = fit("train_memory", of_a_step)
        self.load = fit("load_seconds", of_a_score)
        self.score = fit("score_seconds", of_a_score)
        self.ordered = fit("order_seconds", of_a_score)
        self.score_memory = fit("infer_memory", of_a_step)
        on_gpu = any(unit.device_memory for unit in units)
        self.device_memory = fit("device_memory", of_a_step) if on_gpu else lambda shape: 0.0
        self.files_start = max(unit.files_start_seconds for unit in units)
        self.start = max(unit.start_seconds for unit in units)
        self.weight_bytes = units[0].weight_bytes

    def shape(self, one: GraphSize) -> Shape:
        """Of a graph whose pruned size nobody knows yet."""
        kept = min(one.nodes, self.ratio * one.configurable)
        if getattr(self.settings, "hops", None) == ALL or self.kernels:
            kept = one.nodes
        return self._shape(kept, one.configurable, one.configurations)

    def _shape(self, kept: float, configurable: float, count: float) -> Shape:
        return Shape(kept, configurable, count, min(count, self.settings.configurations))

    def training_seconds(self, sides: Sides) -> float:
        """Of training one fold; all of its graphs are got ready first."""
        s, share = self.settings, 1 - self.held
        learned = [*sides.labelled, *sides.beside]
        steps = share * sum(map(self.step, learned))
        if self.kernels:
            steps /= s.kernels
        sampled, whole = (
            self.held * sum(self._scored(self.score, shape, most) for shape in sides.labelled)
            for most in (s.validation_configurations, math.inf)
        )
        last = whole if sampled < whole else 0.0
        loaded = share * sum(map(self.load, learned))
        loaded += self.held * sum(map(self.load, sides.labelled))
        passes = passes_of(s, math.ceil(share * len(learned) / s.accumulate))
        return loaded + passes * (steps + sampled / s.validate_every) + last

    def held_bytes(self, shapes: Sequence[Shape]) -> float:
        """What training holds of all graphs, beside a step.

        That is their nodes, and of the mapped cache what was read so far, which Linux may take back
        at any time. Of kernels all of it is read, for the standardization sees some tiles of each;
        of other inputs that read graphs when they are needed, it is nothing.
        """
        if self.kernels:
            return sum(map(self.cache_bytes, shapes))
        if self.settings.input not in HELD:
            return 0.0
        rows = passes_of(self.settings, len(shapes)) * self.settings.configurations
        read = (min(s.configurations * s.configurable, rows * TOUCHED_BYTES) for s in shapes)
        return NODE_BYTES * sum(shape.kept for shape in shapes) + sum(read)

    def training(self, sides: Sides, folds: int, rounds: int) -> Forecast:
        """Of stage 2: some folds, in rounds of several at a time."""
        each = self.start + self.training_seconds(sides)
        own = [*sides.labelled, *sides.beside]
        return Forecast(
            seconds=rounds * each,
            each=each,
            memory=_most(self.step_memory, own) + self.held_bytes(own),
            disk=folds * self.weight_bytes,
            device_memory=_most(self.device_memory, own),
        )

    def scoring(self, sides: Sides, folds: int, rounds: int) -> Forecast:
        """Of stage 3, likewise."""
        each, rows = self.start + self.scoring_seconds(sides), self.rows(sides)
        held = self._summed(sides, self.cache_bytes) + rows * FRAME_BYTES
        return Forecast(
            seconds=rounds * each,
            each=each,
            memory=_most(self.score_memory, [*sides.labelled, *sides.test]) + held,
            disk=folds * rows * SCORE_BYTES,
        )

    def scoring_seconds(self, sides: Sides) -> float:
        """Of scoring a fold's graphs under all permutations."""
        return self._summed(sides, lambda shape: self._scored(self.ordered, shape, math.inf))

    def rows(self, sides: Sides) -> float:
        """Of the table that scoring a fold leaves."""
        return self.orders * self._summed(sides, lambda shape: shape.configurations)

    def _summed(self, sides: Sides, each: Callable[[Shape], float]) -> float:
        """Over what a fold scores: of what it learned from, only if that is asked for."""
        share = 1.0 if self.settings.score_training else self.held
        return sum(map(each, sides.test)) + share * sum(map(each, sides.labelled))

    def _scored(self, each: Callable[[Shape], float], shape: Shape, most: float) -> float:
        return each(shape) * (1 if self.kernels else min(shape.configurations, most))

    def files(self, shapes: Sequence[Shape], jobs: int) -> Forecast:
        """Of stage 1: every file, several at a time."""
        seconds = sum(map(self.file, shapes))
        return Forecast(
            seconds=self.files_start + seconds / max(1, min(jobs, len(shapes))),
            each=self.files_start + seconds,
            memory=_most(self.file_memory, shapes),
            disk=sum(map(self.cache_bytes, shapes)),
        )

    @property
    def orders(self) -> int:
        """Rows that stage 3 writes of a configuration."""
        return 1 if input_of(self.settings).groupings is None else self.settings.permutations


def forecast(
    graphs: Sequence[GraphSize],
    units: Sequence[Unit],
    settings: Settings,
    folds: int,
    jobs: int,
    others: Sequence[GraphSize] = (),
) -> dict[str, Forecast]:
    """What each stage will take.

    Args:
        graphs: of the collection.
        units: what was measured.
        settings: of the collection.
        folds: that are trained, ``jobs`` at a time.
        jobs: processes at a time; that they slow each other down is not reckoned with.
        others: graphs of other collections, which are learned from as well.
    """
    costs = Costs(units, settings)
    test = [costs.shape(one) for one in graphs if one.split == "test"]
    labelled, beside = (
        [costs.shape(one) for one in own if one.split != "test"] for own in (graphs, others)
    )
    sides, rounds = Sides(labelled, test, beside), math.ceil(folds / jobs)
    return {
        "preprocess": costs.files([costs.shape(one) for one in (*graphs, *others)], jobs),
        "train": costs.training(sides, folds, rounds),
        "infer": costs.scoring(sides, folds, rounds),
        "ensemble": _blending(costs.rows(sides), folds),
    }


def _blending(rows: float, folds: int) -> Forecast:
    """Of stage 4, which reads so many rows of each fold."""
    seconds = rows * folds / BLENDED_ROWS
    return Forecast(seconds, seconds, memory=BLENDED_BYTES * rows, disk=0.0)


def _most(formula: Callable[[Shape], float], shapes: Sequence[Shape]) -> float:
    return max(map(formula, shapes), default=0.0)


def of_a_file(shape: Shape) -> tuple[float, ...]:
    """What reading and caching a file grows with."""
    return shape.configurations * shape.configurable, shape.kept, 1.0


def of_a_step(shape: Shape) -> tuple[float, ...]:
    """What a step of training grows with."""
    return shape.kept * shape.batch, shape.kept, 1.0


def of_a_score(shape: Shape) -> tuple[float, ...]:
    """What scoring a configuration grows with."""
    return shape.kept, 1.0


def constant(shape: Shape) -> tuple[float, ...]:
    """What does not grow."""
    return (1.0,)


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
    known = np.maximum(np.asarray(values, np.float64), 1e-9)
    scale = np.maximum(rows.max(0), 1e-9)
    found, _ = nnls(rows / scale / known[:, None], np.ones(len(known)))
    coefficients = found / scale
    return lambda shape: float(np.dot(coefficients, terms(shape)))
