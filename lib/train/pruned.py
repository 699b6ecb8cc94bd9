"""Training on pruned graphs, which all are in memory: a graph a step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from lib.cache.reader import Cache
from lib.inputs.pruned import step_estimate
from lib.runs.memory import Estimate
from lib.settings import LayoutSettings
from lib.train.fold import GraphsFold, LabelledGraph, Loss
from lib.train.loss import HINGES
from lib.train.split import prepared_sides


@dataclass(frozen=True)
class PrunedFold(GraphsFold):
    """Training and validation graphs of one fold, as :func:`prepared_sides` orders them."""

    train: list[LabelledGraph]
    valid: list[LabelledGraph]

    def numeric_features(self) -> torch.Tensor:
        """(nodes of all training graphs, 134): what the standardization is fitted on."""
        return torch.cat([graph.prepared.features for graph in self.train])

    def standardize(self, network: nn.Module) -> None:
        network.inputs.standardize.fit(self.numeric_features())

    def loss_of(self, settings: LayoutSettings) -> Loss:
        return HINGES[settings.loss_reduction]

    def estimate(self, network: nn.Module, settings: LayoutSettings) -> Estimate | None:
        shapes = {graph.name: graph.prepared.shape for graph in self.train}
        return step_estimate(network, shapes, settings.configurations)


def load_fold(cache: Cache, fold: int, settings: LayoutSettings) -> PrunedFold:
    """The graphs of one fold, ready to be batched; raises as :func:`prepared_sides`."""
    return PrunedFold(*prepared_sides(fold, cache, settings))
