"""Training on the layout copies of configurations: a graph a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.inputs.copies import CopiesGraph, copies_scores
from lib.models.plus import CostBatch
from lib.ranking.metrics import ranking_metrics
from lib.train.loss import LOSSES
from lib.train.split import sides_of
from lib.train.state import Stateless


@dataclass(frozen=True, eq=False)
class CostSample:
    """What a step trains on: a graph's configurations, their (b,) runtimes, and which loss."""

    inputs: CostBatch
    runtimes: torch.Tensor
    loss_name: str

    @property
    def size(self) -> int:
        """Number of configurations."""
        return len(self.runtimes)

    def to(self, device: torch.device) -> CostSample:
        """The same sample on another device."""
        runtimes = self.runtimes.to(device, non_blocking=True)
        return CostSample(self.inputs.to(device), runtimes, self.loss_name)

    def loss(self, scores: torch.Tensor) -> torch.Tensor:
        """What the network's scores of ``inputs`` cost: the sum over its (members, b)."""
        loss = LOSSES[self.loss_name]
        return torch.stack([loss(own, self.runtimes) for own in scores]).sum()


@dataclass(frozen=True)
class CostFold(Stateless):
    """Training and validation graphs of one fold, each sorted by name: a graph a step."""

    train: list[CopiesGraph]
    valid: list[CopiesGraph]
    sample: int  # configurations of a graph that the standardization is fitted on

    def standardize(self, network: nn.Module) -> None:
        """Fit the network's standardization on the first configurations of the training graphs."""
        batches = [g.batch(np.arange(min(self.sample, len(g.graph.cells)))) for g in self.train]
        network.inputs.copies.fit(torch.cat([batch.copies for batch in batches]))
        network.inputs.off_layout.fit(torch.cat([batch.off_layout for batch in batches]))

    def steps(self, settings: Any) -> int:
        """How many :meth:`samples` there are."""
        return len(self.train)

    def samples(self, settings: Any, generator: np.random.Generator) -> Iterator[CostSample]:
        """One pass: each training graph with configurations drawn anew."""
        for index in generator.permutation(len(self.train)):
            graph = self.train[index]
            runtime = graph.graph.runtime
            size = min(len(runtime), settings.configurations)
            drawn = np.sort(generator.choice(len(runtime), size, replace=False))
            yield CostSample(graph.batch(drawn), torch.from_numpy(runtime[drawn]), settings.loss)

    def validate(self, network: nn.Module, settings: Any) -> dict[str, dict[str, float]]:
        """Metrics of each validation graph; empty if a score is not finite."""
        metrics = {}
        for graph in self.valid:
            scores = copies_scores(network, graph, settings.inference_configurations)
            if not np.isfinite(scores).all():
                return {}
            metrics[graph.graph.name] = ranking_metrics(scores, graph.graph.runtime)
        return metrics


def load_fold(cache: Cache, fold: int, settings: Any) -> CostFold:
    """The graphs of one fold, ready to be resolved; raises as :func:`lib.train.split.sides_of`."""
    sides = (
        [CopiesGraph(graph, settings.propagation) for graph in side]
        for side in sides_of(fold, cache, settings)
    )
    return CostFold(*sides, settings.configurations)
