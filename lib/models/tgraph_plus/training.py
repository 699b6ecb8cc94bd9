"""Training of TGraph+: on the layout copies of configurations, a graph a step.

A new network is pretrained on copies that were measured by themselves: how a loop
that reads or writes in jumps meets the processor's caches is the same in every program, and there
are many more copies than programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lib.cache.reader import Cache
from lib.compiler.cpu.moves import MovedTensor, memory_features
from lib.compiler.cpu.resolved import WIDTHS
from lib.compiler.orders import row_major
from lib.files.progress import Lines
from lib.models.tgraph_plus.network import TGraphPlus
from lib.models.tgraph_plus.settings import TGraphPlusSettings
from lib.training.fold import Fold
from lib.training.schedule import learning_rate
from lib.training.split import prepared_sides

ROWS = 256  # measured copies of a step of pretraining
PEAK, WARMUP, DECAY = 2e-3, 0.1, 1e-2  # of the learning rate in pretraining
OUTLIER = 0.3  # of a logarithm: the clock may be to blame for more


WIDTH = 4  # bytes of an element
FIELDS = ("shape", "before", "after", "microseconds")


@dataclass(frozen=True)
class MeasuredCopies:
    """m copies of no program in particular.

    Attributes:
        features: (m, width) float32, of effects of all kinds; those of copies in no program are
            known, the others zero.
        known: (width,) booleans.
        costs: (m,) float32, logarithms of microseconds a byte, less their mean.
    """

    features: Tensor
    known: Tensor
    costs: Tensor


def measured_copies(path: Path) -> MeasuredCopies:
    """Return the copies of a file that ``lib/collect/xla/copies.py`` wrote."""
    with np.load(path, allow_pickle=False) as file:
        columns = [file[name].tolist() for name in FIELDS]
    rows, costs = [], []
    for *parts, time in zip(*columns, strict=True):
        shape, source, target = (tuple(d for d in part if d >= 0) for part in parts)
        size = float(WIDTH * prod(shape))
        moved = MovedTensor(shape, row_major(len(shape)), size)
        rows.append(memory_features(moved, source, target))
        costs.append(np.log(time / size))
    features = np.zeros((len(rows), sum(WIDTHS)), np.float32)
    known = np.arange(features.shape[1]) < len(rows[0])
    features[:, known] = rows
    logarithms = np.array(costs, np.float32)
    return MeasuredCopies(
        torch.from_numpy(features),
        torch.from_numpy(known),
        torch.from_numpy(logarithms - logarithms.mean()),
    )


@dataclass(eq=False)
class CopiesFold(Fold):
    """Training and validation graphs of one fold.

    Attributes:
        measured: copies that the network is pretrained on, if there are any.
    """

    measured: MeasuredCopies | None = None

    @classmethod
    def load(cls, cache: Cache, fold: int, settings: TGraphPlusSettings) -> CopiesFold:
        file = settings.pretrained_on
        measured = None if file is None else measured_copies(file)
        return cls(*prepared_sides(cache, fold, settings), settings, measured)

    def standardize(self, network: TGraphPlus) -> None:
        """Fit the transforms on a graph's first configurations, as many as a step has."""
        most = self.settings.configurations
        rows = [np.arange(min(most, len(graph.runtime))) for graph in self.train]
        batches = [g.prepared.batch(some) for g, some in zip(self.train, rows, strict=True)]
        of_nodes = [batch.program.program.features[batch.program.nodes] for batch in batches]
        parts = ((b.features, b.kinds, own) for b, own in zip(batches, of_nodes, strict=True))
        features, kinds, nodes = (torch.cat(part) for part in zip(*parts, strict=True))
        network.effects.fit(features, kinds)
        network.states.inputs.standardize.fit(nodes)

    def pretrain(self, network: TGraphPlus) -> None:
        """Fit the costs of single layout copies to those that were measured by themselves.

        That takes seconds, for a collection of any size: ``pretraining`` steps on copies that come
        with the code. A run that was killed does it again, so that nothing of it is saved.
        """
        if self.measured is None:
            return
        known, mean = self.measured.known, network.effects.standardize.mean
        features = torch.where(known, self.measured.features, mean)
        inputs = network.effects(features, torch.zeros(len(features), dtype=torch.int64))
        optimizer = torch.optim.AdamW(network.parameters(), weight_decay=DECAY, fused=True)
        network.train()
        steps = self.settings.pretraining
        lines = Lines(f"train: {self.settings.results} pretraining", steps, "step")
        for step in lines.over(range(steps)):
            optimizer.param_groups[0]["lr"] = learning_rate(step, steps, PEAK, WARMUP)
            rows = torch.randint(len(inputs), (ROWS,))
            costs = network.alone(inputs[rows])  # (members, ROWS)
            targets = self.measured.costs[rows].expand_as(costs)
            optimizer.zero_grad()
            loss = nn.functional.huber_loss(costs, targets, delta=OUTLIER)
            (loss * len(costs)).backward()
            optimizer.step()
