"""CDMPP+: what predicts the latency of unseen programs best, of what was tried.

Programs differ by orders of magnitude because they do more or less work, which can be counted. So
a network predicts the logarithm of latency over work, leaf by leaf, and adds the leaves up. Next
to it stand decision trees on pooled features: a first stage, and a second that corrects it
(:mod:`lib.programs.models.correction`). The first is the mean of ``TREE_FOLDS`` sums of trees, each
fitted without a part of the training tasks; so each training program is predicted by trees that
have not seen its task, and the second stage is fitted to what these get wrong.

Network and trees are blended by the mean of logarithms. The blend is fitted on validation programs:
on one half of their tasks, and on the other once more. So a validation program can be predicted by
what was fitted without its task; all others are predicted by the mean of both.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib.models.rows import Standardize
from lib.programs.models.cdmpp import (
    DEVICE_FEATURES,
    LEAF_FEATURES,
    LOOP_FEATURES,
    LeafEncoder,
    ProgramBatch,
    perceptron,
)
from lib.programs.models.correction import Blend, corrected_rows
from lib.programs.models.trees import Trees
from lib.programs.settings import ProgramPlusSettings

# The last and the dominant leaf, and the loops of either; size of the tree, leaves, work.
POOLED = 2 * (LEAF_FEATURES + LOOP_FEATURES) + 3
ROWS = 4096  # that the trees take at a time
HALVES = 2  # of validation tasks
TREE_FOLDS = 3  # of training tasks, each predicted by trees that were fitted on the other tasks


class LogLatency(nn.Module):
    """Latencies as their logarithms; as :class:`lib.programs.models.labels.LabelTransform`."""

    def forward(self, seconds: Tensor) -> Tensor:
        """Logarithms, float64."""
        return seconds.double().log()

    def log_seconds(self, labels: Tensor) -> Tensor:
        """The labels themselves, float64."""
        return labels.double()


def log_work(features: Tensor, operations: Tensor, loops: int) -> Tensor:
    """Logarithm of what each leaf does: floating-point operations, and half an iteration each.

    Args:
        features: (..., 164) float32, log2(1 + x).
        operations: (164,) how much each feature's x counts.
        loops: the column of the iterations of all loops around the leaf.
    """
    numbers = torch.exp2(features) - 1
    return torch.log1p((numbers * operations).sum(-1) + 0.5 * numbers[..., loops])


def pooled(batch: ProgramBatch, features: Tensor, work: Tensor) -> Tensor:
    """Features of programs as one row each, (b, ``POOLED``).

    Args:
        batch: b programs of l leaves.
        features: its (b, l, 164) float32, log2(1 + x).
        work: (b, l) of the leaves, see :func:`log_work`; the dominant one has most.
    """
    programs, leaves, _ = features.shape
    first, dominant = torch.arange(programs, device=features.device), work.argmax(1)
    loops = batch.loops.float()
    parts = (
        features[:, -1],
        features[first, dominant],
        loops[:, -1],
        loops[first, dominant],
        batch.position.amax(1, keepdim=True).float(),
        torch.full_like(work[:, :1], leaves),
        torch.logsumexp(work, 1, keepdim=True),
    )
    return torch.cat(parts, 1)


def by_parts(trees: Trees, rows: Tensor) -> Tensor:
    """(n,) of (n, features), some rows at a time."""
    return torch.cat([trees(part) for part in rows.split(ROWS)])


class CdmppPlus(nn.Module):
    """The blend; see this module's head."""

    operations: Tensor

    def __init__(self, settings: ProgramPlusSettings, operations: Tensor, loops: int):
        super().__init__()
        c, dropout = settings.channels, settings.dropout
        self.loops = loops
        self.register_buffer("operations", operations, persistent=False)
        self.labels = LogLatency()
        self.encoder = LeafEncoder(c, settings.layers, settings.heads, 2 * c, dropout, True)
        self.loops_scale = Standardize(LOOP_FEATURES)
        self.loops_in = perceptron(LOOP_FEATURES, (c,), c, 0.0)
        self.standardize = Standardize(POOLED)
        self.context = perceptron(POOLED, (2 * c,), c, dropout)
        self.device = perceptron(DEVICE_FEATURES, (c,), c, 0.0)
        self.decoder = perceptron(c, (2 * c, 2 * c), 1, dropout)
        self.level = nn.Parameter(torch.zeros(()))
        self.trees = Trees(TREE_FOLDS * settings.trees, settings.tree_depth)
        self.correction = Trees(settings.correction_trees, settings.correction_depth)
        self.blends = nn.ModuleList(Blend() for _ in range(HALVES))

    @classmethod
    def from_settings(
        cls, settings: ProgramPlusSettings, operations: tuple[float, ...], loops: int
    ) -> CdmppPlus:
        """The network with the sizes that the settings name; of features, see :func:`log_work`."""
        return cls(settings, torch.tensor(operations), loops)

    def forward(self, batch: ProgramBatch) -> Tensor:
        """Logarithms of latencies by the network alone, (b, d)."""
        return self._decoded(batch)[0]

    def with_latents(self, batch: ProgramBatch) -> tuple[Tensor, Tensor]:
        """The same, and the mean of what the decoder reads of each leaf, (b, d, c)."""
        labels, latents = self._decoded(batch)
        return labels, latents.mean(1)

    def _decoded(self, batch: ProgramBatch) -> tuple[Tensor, Tensor]:
        """Logarithms of latencies, (b, d), and what is read of the leaves, (b, l, d, c)."""
        features, work = self._read(batch)
        context = self.context(self.standardize(pooled(batch, features, work)))  # (b, c)
        loops = self.loops_in(self.loops_scale(batch.loops.float()))  # (b, l, c)
        leaves = self.encoder(batch, loops) + context[:, None]  # (b, l, c)
        device = self.device(batch.devices)  # (d, c)
        latents = leaves[:, :, None] * device
        by_leaf = self.decoder(latents).squeeze(-1)  # (b, l, d)
        return torch.logsumexp(by_leaf + work[..., None], 1) + self.level, latents

    def by_trees(self, batch: ProgramBatch) -> Tensor:
        """Logarithms of latencies by both stages of trees alone, (b, d)."""
        rows, work = self.rows(batch)
        first = by_parts(self.trees, rows).reshape(len(work), -1) + work[:, None]
        if not len(self.correction.feature):
            return first
        gain = by_parts(self.correction, corrected_rows(rows, first, work))
        return first + gain.reshape(first.shape)

    def rows(self, batch: ProgramBatch) -> tuple[Tensor, Tensor]:
        """What trees read, (b * d, ``POOLED`` + 8), device by device of each program; (b,) work."""
        features, work = self._read(batch)
        programs = pooled(batch, features, work)
        count, devices = len(programs), len(batch.devices)
        parts = [programs.repeat_interleave(devices, 0), batch.devices.repeat(count, 1)]
        return torch.cat(parts, 1), programs[:, -1]

    def log_seconds(self, batch: ProgramBatch) -> Tensor:
        """Logarithms of the predicted latencies in seconds, (b, d) float64."""
        return self.by_halves(batch).mean(-1)

    def by_halves(self, batch: ProgramBatch) -> Tensor:
        """The same by what was fitted on each half of the validation tasks, (b, d, 2)."""
        network, trees = self(batch).double(), self.by_trees(batch).double()
        return torch.stack([blend(network, trees) for blend in self.blends], -1)

    def _read(self, batch: ProgramBatch) -> tuple[Tensor, Tensor]:
        features = batch.features.float()
        return features, log_work(features, self.operations, self.loops)
