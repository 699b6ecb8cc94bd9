"""Kinds of collections: their metrics, baselines and submissions.

All numbers of a kind are defined here and in :mod:`lib.ranking.metrics`; the setting ``metric`` is
the key of a kind's first metric.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lib.cache.graph import CachedGraph
from lib.cache.kernel import CachedKernel
from lib.files.named import named
from lib.ranking.baseline import LAYOUT_BASELINES, output_tile
from lib.ranking.blending import places_of
from lib.ranking.metrics import (
    BEST_SPEEDUP,
    GAINS,
    LAYOUT_METRICS,
    SLOWDOWNS,
    SPEEDUP,
    TAU,
    TILE_METRICS,
    TILE_SCORE,
    TILE_TOP,
    Metric,
    gains,
    kendall_tau,
    random_best,
    tile_metrics,
)
from lib.systems import SYSTEMS


@dataclass(frozen=True)
class Measures:
    """A kind of collection.

    Attributes:
        name: the first word of its collections' names and of their IDs.
        metrics: metrics of a ranking, the main one first.
        baseline: the main metric of a ranking that needs no learning.
        ceiling: the main metric of a perfect predictor.
        chance: the main metric of a random order, if it depends on the graph.
        references: function of (runtimes, graph) that returns the baseline, chance and other
            numbers to compare a network with, by key.
        columns: columns of the table that stage 4 prints.
        listed: the most configurations that a submission names of a graph; ``None`` for all.
        entry: a graph's entry in a submission, in words, with places for its ``length`` and the
            ``last`` configuration; empty if the kind has no submission.
        ordered: whether scores mean an order only, so that reports show ranks.
        item: the word for a thing that has configurations.
        gains: metrics of the gain over the compiler's own configuration; none for programs, whose
            compiler has no schedule but those that a search finds.
    """

    name: str
    metrics: tuple[Metric, ...]
    baseline: Metric
    ceiling: Metric
    chance: Metric | None
    references: Callable[[np.ndarray, Any], dict[str, float]]
    columns: tuple[Metric, ...]
    listed: int | None
    entry: str
    ordered: bool = True
    item: str = "graph"
    gains: tuple[Metric, ...] = GAINS

    @property
    def main(self) -> Metric:
        """Main metric."""
        return self.metrics[0]

    @property
    def described(self) -> tuple[Metric, ...]:
        """Every number to show: the main one, its references, and all others."""
        references = (self.baseline, self.ceiling, self.chance)
        shown = (metric for metric in references if metric is not None)
        return self.main, *shown, *self.metrics[1:], *self.gains

    def measure(
        self, scores: np.ndarray, runtimes: np.ndarray, graph: CachedGraph | CachedKernel
    ) -> dict[str, float]:
        """Return every metric of a graph's scores, and its references, by key.

        Args:
            scores: (c,), lower for faster.
            runtimes: (c,) measured.
            graph: the cached graph, for the baseline.
        """
        numbers = {m.key: m.compute(scores, runtimes) for m in self.metrics}  # type: ignore[misc]
        if graph.compilers_own is not None:
            numbers |= gains(scores, runtimes, graph.compilers_own)
        return {**numbers, **self.references(runtimes, graph)}

    def length(self, count: int) -> int:
        """Return how many configurations a submission names of a graph that has ``count``."""
        return count if self.listed is None else min(self.listed, count)


def measures_of(name: str, hardware: str = "cpu") -> Measures:
    """Return the measures of a collection's kind; those of layouts if it is unknown.

    Args:
        name: the collection, its identifier or an ID of a submission.
        hardware: the hardware of layouts, which their baseline depends on.
    """
    system = SYSTEMS.get(re.split("[-:]", name)[0], SYSTEMS["layout"])
    kind = named(system.ranking)
    return LAYOUTS_ON_TPU if kind is LAYOUTS and hardware == "tpu" else kind


def layout_references(
    runtimes: np.ndarray, graph: CachedGraph, hardware: str = "cpu"
) -> dict[str, float]:
    """Return the tau of the order that needs no learning, as it would be submitted."""
    scores = LAYOUT_BASELINES[hardware](graph)[graph.original]
    return {"baseline_tau": kendall_tau(places_of(scores, graph.layouts_set), runtimes)}


def tile_references(runtimes: np.ndarray, kernel: CachedKernel) -> dict[str, float]:
    """Return metrics of a random order, and those of the largest output tile first."""
    baseline = tile_metrics(output_tile(kernel), runtimes)
    return {
        "random_tile_score": 2 - random_best(runtimes, TILE_TOP),
        **{f"baseline_{key}": value for key, value in baseline.items()},
    }


def _reference(main: Metric, key: str, heading: str, explained: str, name: str = "") -> Metric:
    """Return a number on the scale of a main metric that does not depend on scores."""
    name = name or heading
    return replace(main, key=key, name=name, heading=heading, explained=explained, compute=None)


BASELINE = _reference(
    TAU,
    key="baseline_tau",
    heading="baseline",
    explained=(
        "bytes of constrained tensors whose minor-most dimension moved: arithmetic, no learning"
    ),
)
CEILING = _reference(
    TAU,
    key="ceiling",
    heading="ceiling",
    explained=(
        "agreement between two halves of the measuring rounds: how far the labels agree with "
        "themselves"
    ),
)
TILE_BASELINE = _reference(
    TILE_SCORE,
    key="baseline_tile_score",
    heading="baseline",
    explained="the largest output tile first: arithmetic, no learning",
)
TILE_CEILING = _reference(
    TILE_SCORE,
    key="ceiling",
    heading="ceiling",
    explained="how far the labels agree with themselves",
)
TILE_CHANCE = _reference(
    TILE_SCORE,
    key="random_tile_score",
    name="M_tile of a random order",
    heading="random",
    explained="what five configurations drawn at random get on average",
)
LAYOUTS = Measures(
    name="layout",
    metrics=LAYOUT_METRICS,
    baseline=BASELINE,
    ceiling=CEILING,
    chance=None,
    references=layout_references,
    columns=(TAU, BASELINE, CEILING, *SLOWDOWNS, SPEEDUP, BEST_SPEEDUP),
    listed=None,
    entry="each of 0..{last} once",
)
TILES = Measures(
    name="tile",
    metrics=TILE_METRICS,
    baseline=TILE_BASELINE,
    ceiling=TILE_CEILING,
    chance=TILE_CHANCE,
    references=tile_references,
    columns=(TILE_SCORE, TILE_CHANCE, TILE_BASELINE, *SLOWDOWNS, SPEEDUP, BEST_SPEEDUP),
    listed=TILE_TOP,
    entry="{length} distinct indices of 0..{last}",
)
LAYOUTS_ON_TPU = replace(
    LAYOUTS,
    baseline=replace(
        BASELINE,
        explained=(
            "work of products in padded lanes: multiply-adds times the logarithm of how much "
            "further a layout pads the output's minor-most dimension; arithmetic, no learning"
        ),
    ),
    references=partial(layout_references, hardware="tpu"),
)
