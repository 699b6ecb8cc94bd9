"""Training on the layout copies of configurations: a graph a step.

Before the first of them, where copies were measured by themselves (``lib/inputs/measured.py``), the
network is taught what those cost: how a loop that reads or writes in jumps meets the processor's
caches is the same in every program, and there are many more copies than programs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.inputs.measured import MeasuredCopies, measured_copies
from lib.models.plus import TGraphPlus
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
        """Fit the transforms on a graph's first configurations, as many as a step has."""
        most = self.settings.configurations
        chosen = [np.arange(min(most, len(graph.runtime))) for graph in self.train]
        batches = [g.prepared.batch(rows) for g, rows in zip(self.train, chosen, strict=True)]
        parts = ((batch.features, batch.kinds, batch.program.features) for batch in batches)
        features, kinds, nodes = (torch.cat(part) for part in zip(*parts, strict=True))
        network.effects.fit(features, kinds)
        network.states.inputs.standardize.fit(nodes)

    def teach(self, network: TGraphPlus) -> None:
        """Fit the costs of single layout copies to those that were measured by themselves."""
        if self.measured is None:
            return
        known, mean = self.measured.known, network.effects.standardize.mean
        features = torch.where(known, self.measured.features, mean)
        inputs = network.effects(features, torch.zeros(len(features), dtype=torch.int64))
        optimizer = torch.optim.AdamW(network.parameters(), weight_decay=DECAY, fused=True)
        network.train()
        lessons = self.settings.lessons
        for step in range(lessons):
            optimizer.param_groups[0]["lr"] = learning_rate(step, lessons, PEAK, WARMUP)
            rows = torch.randint(len(inputs), (ROWS,))
            learned = network.alone(inputs[rows])
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
