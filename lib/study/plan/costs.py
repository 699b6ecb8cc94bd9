"""From what a few graphs took to what all of them will.

A step, a score and a file take a time that grows with a graph's size, by the formulae of
:mod:`lib.study.plan.formulae`. Memory is fitted likewise: of a worker by what a file has, of
training and inference by what a step has. Kernels are so small that a step and a kernel take their
mean. A process takes a while to begin and to read a fold's graphs, which counts where there is
little to do. What is measured has one graph at a time; training has all of a fold in memory
(:meth:`Costs.held_bytes`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lib.cache.prune import ALL
from lib.inputs.input import input_of
from lib.settings import Settings
from lib.study.plan.formulae import (
    Shape,
    Sides,
    Terms,
    constant,
    fitted,
    of_a_file,
    of_a_score,
    of_a_step,
)
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


# Inputs whose graphs are all in memory while training.
HELD = ("lib.inputs.pruned:INPUT", "lib.inputs.copies:INPUT")


class Costs:
    """The formulae of a collection and a model, fitted.

    Args:
        units: what was measured.
        settings: of the collection.
    """

    def __init__(self, units: Sequence[Unit], settings: Settings):
        self.settings, self.kernels = settings, settings.kind == "tile"
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
        s = self.settings
        learned = [*sides.train, *sides.beside]
        steps = sides.learned * sum(map(self.step, learned))
        if self.kernels:
            steps /= s.kernels
        sampled, whole = (
            sides.held * sum(self._scored(self.score, shape, most) for shape in sides.valid)
            for most in (s.validation_configurations, math.inf)
        )
        last = whole if sampled < whole else 0.0
        loaded = sides.learned * sum(map(self.load, learned))
        loaded += sides.held * sum(map(self.load, sides.valid))
        passes = passes_of(s, math.ceil(sides.learned * len(learned) / s.accumulate))
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

    def training(
        self, sides: Sides, graphs: Sequence[GraphSize], folds: int, rounds: int
    ) -> Forecast:
        """Of stage 2: some folds, in rounds of several at a time."""
        each = self.start + self.training_seconds(sides)
        own = [*sides.train, *sides.beside, *sides.valid]
        labelled = [self.shape(one) for one in graphs if one.split != "test"]
        held = self.held_bytes([*labelled, *sides.beside])
        return Forecast(
            seconds=rounds * each,
            each=each,
            memory=_most(self.step_memory, own) + held,
            disk=folds * self.weight_bytes,
            device_memory=_most(self.device_memory, own),
        )

    def scoring(self, sides: Sides, folds: int, rounds: int) -> Forecast:
        """Of stage 3, likewise."""
        each, rows = self.start + self.scoring_seconds(sides), self.rows(sides)
        own = [shape for share, shapes in self.scored(sides) if share for shape in shapes]
        held = self.scored_bytes(sides) + rows * FRAME_BYTES
        return Forecast(
            seconds=rounds * each,
            each=each,
            memory=_most(self.score_memory, own) + held,
            disk=folds * rows * SCORE_BYTES,
        )

    def scored(self, sides: Sides) -> list[tuple[float, Sequence[Shape]]]:
        """What a fold scores, with the shares that count: what it learned from only if asked to."""
        learned = sides.learned if self.settings.score_training else 0.0
        return [(1.0, sides.test), (sides.held, sides.valid), (learned, sides.train)]

    def scoring_seconds(self, sides: Sides) -> float:
        """Of scoring a fold's graphs under all permutations."""
        return self._summed(sides, lambda shape: self._scored(self.ordered, shape, math.inf))

    def scored_bytes(self, sides: Sides) -> float:
        """What scoring has read of the mapped cache in the end."""
        return self._summed(sides, self.cache_bytes)

    def rows(self, sides: Sides) -> float:
        """Of the table that scoring a fold leaves."""
        return self.orders * self._summed(sides, lambda shape: shape.configurations)

    def _summed(self, sides: Sides, each: Callable[[Shape], float]) -> float:
        return sum(share * sum(map(each, shapes)) for share, shapes in self.scored(sides))

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
    fold: tuple[Sequence[GraphSize], Sequence[GraphSize]] | None = None,
    others: Sequence[GraphSize] = (),
) -> dict[str, Forecast]:
    """What each stage will take.

    Args:
        graphs: of the collection.
        units: what was measured.
        settings: of the collection.
        folds: that are trained, ``jobs`` at a time.
        jobs: processes at a time; that they slow each other down is not reckoned with.
        fold: the graphs to learn from and of validation, if it is known; else those of a fold in
            the mean, and the memory of the one that takes most.
        others: graphs of other collections, which are learned from as well.
    """
    costs = Costs(units, settings)
    beside = [costs.shape(one) for one in others if one.split != "test"]
    sides = replace(_sides(costs, graphs, fold), beside=beside)
    rounds = math.ceil(folds / jobs)
    rows = costs.rows(sides)
    return {
        "preprocess": costs.files([costs.shape(one) for one in (*graphs, *others)], jobs),
        "train": costs.training(sides, graphs, folds, rounds),
        "infer": costs.scoring(sides, folds, rounds),
        "ensemble": _blending(rows, folds),
    }


def _sides(
    costs: Costs,
    graphs: Sequence[GraphSize],
    fold: tuple[Sequence[GraphSize], Sequence[GraphSize]] | None,
) -> Sides:
    test = [costs.shape(one) for one in graphs if one.split == "test"]
    if fold is not None:
        return Sides(*([costs.shape(one) for one in side] for side in fold), test)
    labelled = [costs.shape(one) for one in graphs if one.split != "test"]
    held = 1 / costs.settings.folds_total
    return Sides(labelled, labelled, test, 1 - held, held)


def _blending(rows: float, folds: int) -> Forecast:
    """Of stage 4, which reads so many rows of each fold."""
    seconds = rows * folds / BLENDED_ROWS
    return Forecast(seconds, seconds, memory=BLENDED_BYTES * rows, disk=0.0)


def _most(formula: Callable[[Shape], float], shapes: Sequence[Shape]) -> float:
    return max(map(formula, shapes), default=0.0)
