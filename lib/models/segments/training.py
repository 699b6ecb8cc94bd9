"""Training on whole graphs: GST and its baselines, a graph a step, read when it is needed.

Steps of each model are in :mod:`lib.models.segments.steps`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.files.named import named
from lib.models.common.rows import NUMERIC
from lib.models.segments.inputs import SegmentedGraph, segmented
from lib.models.segments.settings import LayoutPooling
from lib.runs.memory import Estimate
from lib.training.fold import Batch, Fold
from lib.training.split import LabelledGraph, sides_of

KEPT_NODES = 1 << 13  # of graphs that stay prepared between steps


@dataclass(eq=False)
class SegmentsFold(Fold):
    """Names of the training and validation graphs of one fold, sorted, and a model's steps.

    Graphs are read from the cache when they are needed; a few of them stay prepared.
    """

    cache: Cache
    prepare = staticmethod(segmented)  # (cached graph, settings, whether its segments stay)

    def __post_init__(self) -> None:
        self.in_memory: dict[str, SegmentedGraph] = {}
        self.step = named(self.settings.steps)(self.cache, self.train, self.settings)

    @classmethod
    def load(cls, cache: Cache, fold: int, settings: LayoutPooling) -> SegmentsFold:
        """The graphs of a fold; raises as :func:`lib.training.split.sides_of`.

        Raises:
            UserError: also if the historical table would be larger than its limit.
        """
        sides = ([graph.name for graph in side] for side in sides_of(cache, fold, settings))
        return cls(*sides, settings, cache)

    def standardize(self, network: nn.Module) -> None:
        """Fit the transform of features, with one graph in memory at a time."""

        def features() -> Iterator[torch.Tensor]:
            for name in self.train:
                yield torch.from_numpy(np.array(self.cache.graph(name).node_feat[:, :NUMERIC]))

        network.inputs.standardize.fit_chunks(features)

    def read(self, name: str) -> LabelledGraph:
        graph = self.graph(name)
        return LabelledGraph(name, graph, graph.graph.runtime)

    def batch(
        self,
        graphs: Sequence[LabelledGraph],
        rows: Sequence[np.ndarray],
        generator: np.random.Generator,
    ) -> Batch:
        """Return one graph, cut into segments, as the model's steps take it."""
        (graph,), (some,) = graphs, rows
        batch = self.step.batch(graph.prepared, some, generator)
        self.drawn = graph.prepared, some, batch
        return Batch(batch, [torch.from_numpy(graph.runtime[some])])

    def after_step(self) -> None:
        """Let the historical table have what was computed."""
        self.step.done(*self.drawn)

    def state(self) -> dict[str, torch.Tensor]:
        """Return the historical table."""
        return self.step.state()

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> bool:
        """Take the historical table back."""
        return self.step.restore(tensors)

    def estimate(self) -> Estimate | None:
        """Return the memory of a step on the training graph that takes most."""
        return self.step.estimate()

    def graph(self, name: str) -> SegmentedGraph:
        """A graph, cut; small ones are kept."""
        if name in self.in_memory:
            return self.in_memory[name]
        already = sum(graph.node_count for graph in self.in_memory.values())
        keep = already + self.cache.rows[name]["nodes"] <= KEPT_NODES
        graph = self.prepare(self.cache.graph(name), self.settings, keep)
        if keep:
            self.in_memory[name] = graph
        return graph
