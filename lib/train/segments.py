"""Training on whole graphs: GST and its baselines, a graph a step, read when it is needed.

What a model's step is, :mod:`lib.train.steps` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.inputs.segments import SegmentedGraph, segmented, whole_scores
from lib.models.inputs import NUMERIC
from lib.ranking.metrics import ranking_metrics
from lib.train.pruned import Sample
from lib.train.split import sides_of
from lib.train.steps import STEPS

KEPT_NODES = 1 << 13  # of graphs that stay prepared between steps


class WholeFold:
    """Names of the training and validation graphs of one fold, sorted, and a model's steps.

    Graphs are read from the cache when they are needed; a few of them stay prepared.
    """

    def __init__(self, cache: Cache, train: list[str], valid: list[str], settings: Any):
        self.cache, self.train, self.valid, self.settings = cache, train, valid, settings
        self.kept: dict[str, SegmentedGraph] = {}
        self.how = STEPS[settings.model](cache, train, settings)
        self.begin, self.saved, self.end = self.how.begin, self.how.saved, self.how.end
        self.estimate = self.how.estimate

    def standardize(self, network: nn.Module) -> None:
        """Fit the network's standardization on the training graphs, one in memory at a time."""

        def features() -> Iterator[torch.Tensor]:
            for name in self.train:
                yield torch.from_numpy(np.array(self.cache.graph(name).node_feat[:, :NUMERIC]))

        network.inputs.standardize.fit_chunks(features)

    def steps(self, settings: Any) -> int:
        """How many :meth:`samples` there are."""
        return len(self.train)

    def samples(self, settings: Any, generator: np.random.Generator) -> Iterator[Sample]:
        """One pass: each training graph with configurations drawn anew (TGraph, 2.2.5)."""
        for index in generator.permutation(len(self.train)):
            graph = self.graph(self.train[index])
            runtime = graph.graph.runtime
            size = min(len(runtime), settings.configurations)
            rows = np.sort(generator.choice(len(runtime), size, replace=False))
            batch = self.how.batch(graph, rows, generator)
            yield Sample(batch, torch.from_numpy(runtime[rows]))
            self.how.done(graph, rows, batch)

    def validate(self, network: nn.Module, settings: Any) -> dict[str, dict[str, float]]:
        """Metrics of each validation graph; empty if a score is not finite."""
        metrics = {}
        for name in self.valid:
            graph = self.graph(name)
            scores = whole_scores(network, graph, settings.inference_configurations)
            if not np.isfinite(scores).all():
                return {}
            metrics[name] = ranking_metrics(scores, graph.graph.runtime)
        return metrics

    def graph(self, name: str) -> SegmentedGraph:
        """A graph, cut; small ones are kept."""
        if name in self.kept:
            return self.kept[name]
        already = sum(graph.node_count for graph in self.kept.values())
        keep = already + self.cache.rows[name]["nodes"] <= KEPT_NODES
        graph = segmented(self.cache.graph(name), self.settings, keep)
        if keep:
            self.kept[name] = graph
        return graph


def load_fold(cache: Cache, fold: int, settings: Any) -> WholeFold:
    """The names of one fold's graphs; raises as :func:`lib.train.split.sides_of`.

    Raises:
        UserError: also if the historical table would be too large.
    """
    sides = ([graph.name for graph in side] for side in sides_of(fold, cache, settings))
    return WholeFold(cache, *sides, settings)
