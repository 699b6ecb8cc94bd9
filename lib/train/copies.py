"""Training on the layout copies of configurations: a graph a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.settings import PlusSettings
from lib.train.fold import GraphsFold, LabelledGraph, Sample
from lib.train.loss import LOSSES
from lib.train.split import learned_beside, prepared, prepared_sides


@dataclass(frozen=True)
class CopiesFold(GraphsFold):
    """Training and validation graphs of one fold, each sorted by name.

    Graphs of other collections that are learned from as well come last.

    Attributes:
        fitted: configurations of a graph that the standardization is fitted on, the first ones.
    """

    train: list[LabelledGraph]
    valid: list[LabelledGraph]
    fitted: int

    def standardize(self, network: nn.Module) -> None:
        """See :meth:`Fold.standardize`."""
        batches = [
            graph.prepared.batch(np.arange(min(self.fitted, len(graph.runtime))))
            for graph in self.train
        ]
        network.inputs.copies.fit(torch.cat([batch.copies for batch in batches]))
        network.inputs.off_layout.fit(torch.cat([batch.off_layout for batch in batches]))

    def sample(
        self,
        graphs: Sequence[LabelledGraph],
        chosen: Sequence[np.ndarray],
        settings: PlusSettings,
        generator: np.random.Generator,
    ) -> Sample:
        """See :meth:`GraphsFold.sample`."""
        (graph,), (own,) = graphs, chosen
        runtimes = [torch.from_numpy(graph.runtime[own])]
        return Sample(graph.prepared.batch(own), runtimes, LOSSES[settings.loss])


def load_fold(cache: Cache, fold: int, settings: PlusSettings) -> CopiesFold:
    """The graphs of one fold, ready to be resolved, those of other collections among them.

    Raises as :func:`lib.train.split.sides_of` and :func:`lib.train.split.learned_beside`.
    """
    train, valid = prepared_sides(fold, cache, settings)
    beside = prepared(learned_beside(fold, cache, settings), settings)
    return CopiesFold([*train, *beside], valid, settings.configurations)
