"""The graphs of one fold, ready to be batched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.inputs.pruned import score_in_batches
from lib.inputs.tensors import GraphTensors, graph_tensors
from lib.models.inputs import GraphBatch
from lib.ranking.metrics import ranking_metrics
from lib.train.loss import pairwise_hinge
from lib.train.split import sides_of
from lib.train.state import Stateless


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph with runtimes: its tensors and (c,) int64 nanoseconds."""

    name: str
    tensors: GraphTensors
    runtime: np.ndarray


@dataclass(frozen=True, eq=False)
class Sample:
    """What a step trains on: a network's input, and the (b,) runtimes of its configurations."""

    inputs: GraphBatch
    runtimes: torch.Tensor

    @property
    def size(self) -> int:
        """Number of configurations."""
        return len(self.runtimes)

    def to(self, device: torch.device) -> Sample:
        """The same sample on another device."""
        return Sample(self.inputs.to(device), self.runtimes.to(device, non_blocking=True))

    def loss(self, scores: torch.Tensor) -> torch.Tensor:
        """What the network's scores of ``inputs`` cost."""
        return pairwise_hinge(scores, self.runtimes)


@dataclass(frozen=True)
class FoldData(Stateless):
    """Training and validation graphs of one fold, each sorted by name: a graph a step."""

    train: list[LabelledGraph]
    valid: list[LabelledGraph]

    def numeric_features(self) -> torch.Tensor:
        """(nodes of all training graphs, 134): what the standardization is fitted on."""
        return torch.cat([graph.tensors.features for graph in self.train])

    def standardize(self, network: nn.Module) -> None:
        """Fit the network's standardization on the training graphs."""
        network.inputs.standardize.fit(self.numeric_features())

    def steps(self, settings: Any) -> int:
        """How many :meth:`samples` there are."""
        return len(self.train)

    def samples(self, settings: Any, generator: np.random.Generator) -> Iterator[Sample]:
        """One pass: each training graph with configurations drawn anew (section 2.2.5)."""
        for index in generator.permutation(len(self.train)):
            graph = self.train[index]
            count = len(graph.runtime)
            size = min(count, settings.configurations)
            rows = np.sort(generator.choice(count, size, replace=False))
            yield Sample(graph.tensors.batch(rows), torch.from_numpy(graph.runtime[rows]))

    def validate(self, network: nn.Module, settings: Any) -> dict[str, dict[str, float]]:
        """Metrics of each validation graph; empty if a score is not finite."""
        metrics = {}
        for graph in self.valid:
            order = np.arange(len(graph.runtime))
            size = settings.inference_configurations
            scores = score_in_batches(network, graph.tensors, order, size)
            if not np.isfinite(scores).all():
                return {}
            metrics[graph.name] = ranking_metrics(scores, graph.runtime)
        return metrics


def load_fold(cache: Cache, fold: int, settings: Any) -> FoldData:
    """The graphs of one fold, ready to be batched; raises as :func:`lib.train.split.sides_of`."""
    return FoldData(
        *(
            [LabelledGraph(graph.name, graph_tensors(graph), graph.runtime) for graph in side]
            for side in sides_of(fold, cache, settings)
        )
    )
