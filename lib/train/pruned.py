"""Training on pruned graphs, which all are in memory: a graph a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from lib.cache.reader import Cache
from lib.inputs.pruned import step_estimate
from lib.runs.memory import Estimate
from lib.settings import LayoutSettings
from lib.train.fold import GraphsFold, LabelledGraph
from lib.train.split import prepared_sides


@dataclass(frozen=True)
class PrunedFold(GraphsFold[Any, LayoutSettings]):
    """Training and validation graphs of one fold, as :func:`prepared_sides` orders them."""

    train: list[LabelledGraph]
    valid: list[LabelledGraph]
    settings: LayoutSettings

    def numeric_features(self) -> torch.Tensor:
        """(nodes of all training graphs, 134): what the standardization is fitted on."""
        return torch.cat([graph.prepared.features for graph in self.train])

    def standardize(self, network: Any) -> None:
        network.inputs.standardize.fit(self.numeric_features())

    def estimate(self, network: Any) -> Estimate | None:
        shapes = {graph.name: graph.prepared.shape for graph in self.train}
        return step_estimate(network, shapes, self.settings.configurations)


def load_fold(cache: Cache, fold: int, settings: LayoutSettings) -> PrunedFold:
    """The graphs of one fold, ready to be batched; raises as :func:`prepared_sides`."""
    return PrunedFold(*prepared_sides(cache, fold, settings), settings)
