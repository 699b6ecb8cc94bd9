"""Training on the layout copies of configurations: a graph a step.

Before the first of them, where copies were measured by themselves (``lib/inputs/measured.py``), the
network is taught what those cost: how a loop that reads or writes in jumps meets the processor's
caches is the same in every program, and there are many more copies than programs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.inputs.measured import MeasuredCopies, measured_copies
from lib.models.plus import CostBatch, TGraphPlus
from lib.settings import PlusSettings
from lib.train.fold import GraphsFold
from lib.train.products import ProductsFold
from lib.train.schedule import learning_rate
from lib.train.split import LabelledGraph, prepared_sides

ROWS = 256  # measured copies of a lesson
PEAK, WARMUP, DECAY = 2e-3, 0.1, 1e-2  # of the learning rate in lessons
OUTLIER = 0.3  # of a logarithm: what lies further off, the clock may be to blame for


@dataclass(eq=False)
class CopiesFold(GraphsFold[TGraphPlus, PlusSettings]):
    """Training and validation graphs of one fold, as :func:`prepared_sides` orders them.

    Attributes:
        measured: copies that the network is taught first, if there are any.
    """

    measured: MeasuredCopies | None = None

    @classmethod
    def load(cls, cache: Cache, fold: int, settings: PlusSettings) -> CopiesFold | ProductsFold:
        """The graphs of a fold; of TPUs it is another class of fold."""
        return fold_of(*prepared_sides(cache, fold, settings), settings)

    def standardize(self, network: TGraphPlus) -> None:
        """Fit the transforms on a graph's first configurations, as many as a step has.

        Each process takes the graphs in an order of its own, so that folds that begin together
        find on disk what the other fold has resolved (:mod:`lib.inputs.kept`), half of them each.
        """
        batch_of: dict[int, CostBatch] = {}
        for place in np.random.default_rng(os.getpid()).permutation(len(self.train)).tolist():
            graph, most = self.train[place], self.settings.configurations
            batch_of[place] = graph.prepared.batch(np.arange(min(most, len(graph.runtime))))
        batches = [batch_of[place] for place in range(len(batch_of))]
        network.inputs.copies.fit(torch.cat([batch.copies for batch in batches]))
        network.inputs.off_layout.fit(torch.cat([batch.off_layout for batch in batches]))
        network.inputs.repeated.fit(torch.cat([batch.repeated for batch in batches]))

    def teach(self, network: TGraphPlus) -> None:
        """Fit the costs of single layout copies to those that were measured by themselves."""
        if self.measured is None:
            return
        inputs = network.inputs.copies(self.measured.features) * self.measured.known
        optimizer = torch.optim.AdamW(network.parameters(), weight_decay=DECAY, fused=True)
        network.train()
        lessons = self.settings.lessons
        for step in range(lessons):
            optimizer.param_groups[0]["lr"] = learning_rate(step, lessons, PEAK, WARMUP)
            rows = torch.randint(len(inputs), (ROWS,))
            learned = network.copy_cost(inputs[rows])
            targets = self.measured.costs[rows].expand_as(learned)
            optimizer.zero_grad()
            loss = nn.functional.huber_loss(learned, targets, delta=OUTLIER)
            (loss * len(learned)).backward()
            optimizer.step()


def fold_of(
    train: list[LabelledGraph], valid: list[LabelledGraph], settings: PlusSettings
) -> CopiesFold | ProductsFold:
    """What is trained on some graphs and validated on other graphs, on the settings' hardware."""
    if settings.hardware == "tpu":
        return ProductsFold(train, valid, settings)
    file = settings.taught
    measured = None if file is None else measured_copies(file)
    return CopiesFold(train, valid, settings, measured)
