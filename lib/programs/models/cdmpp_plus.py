"""CDMPP+: what predicts the latency of unseen programs best, of what was tried.

Programs differ by orders of magnitude because they do more or less work, which can be counted. So
the network predicts the logarithm of latency over work, leaf by leaf, and adds the leaves up. It
reads each leaf's features, the loops around it and what it accesses, as standardized numbers and as
which thresholds they pass (:class:`Thresholds`). It is trained to the relative error, so that
nothing has to be fitted to it afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lib.models.common.rows import Standardize
from lib.programs.models.cdmpp import (
    DEVICE_FEATURES,
    LEAF_FEATURES,
    LOOP_FEATURES,
    ProgramBatch,
    perceptron,
)
from lib.programs.settings import ProgramPlusSettings

READ = LEAF_FEATURES + LOOP_FEATURES  # numbers that are read of a leaf
LEVELS = 3  # halvings of the quantiles: at most 2**3 - 1 thresholds a number
THRESHOLDS = 1024  # in all; the bundled programs have 891 distinct ones
FARTHEST = 5.0  # deviations from the mean, of a standardized number
NEVER = 1e9  # an edge that no number is above
SAMPLED = 100_000  # leaves that quantiles are taken of


class Thresholds(nn.Module):
    """Say which thresholds numbers are above: steps that a smooth network finds hard to learn.

    A loop that just fits a cache, a stride of one or of two, vectors of four or of eight: what
    decides is on which side of an edge a number is. Edges are quantiles of the training leaves, as
    in piecewise linear encodings (https://arxiv.org/abs/2203.05556), halved ``LEVELS`` times as
    long as there is room.
    """

    column: Tensor
    edge: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("column", torch.zeros(THRESHOLDS, dtype=torch.int64))
        self.register_buffer("edge", torch.full((THRESHOLDS,), NEVER))

    def fit(self, rows: Tensor) -> None:
        """Find the edges of (n, ``READ``) numbers."""
        self.column.zero_()
        self.edge.fill_(NEVER)
        rows = rows[:: max(1, -(-len(rows) // SAMPLED))].float()
        found: dict[tuple[int, float], None] = {}  # in order; a number's largest parts nothing
        if len(rows):
            most = rows.amax(0).tolist()
            shares = torch.cat([torch.arange(1, 2**k, 2) / 2**k for k in range(1, LEVELS + 1)])
            edges = torch.quantile(rows, shares, dim=0, interpolation="lower")
            for values in edges.tolist():
                found |= {(k, v): None for k, v in enumerate(values) if v < most[k]}
        kept = list(found)[:THRESHOLDS]
        if kept:
            columns, values = zip(*kept, strict=True)
            self.column[: len(kept)] = torch.tensor(columns)
            self.edge[: len(kept)] = torch.tensor(values)

    def forward(self, rows: Tensor) -> Tensor:
        """Return (..., ``THRESHOLDS``) zeros and ones of (..., ``READ``) numbers."""
        return (rows[..., self.column] > self.edge).to(rows.dtype)


class Residual(nn.Module):
    """A perceptron that adds to its input."""

    def __init__(self, channels: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.inner = perceptron(channels, (2 * channels,), channels, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., channels) of the same."""
        return x + self.inner(self.norm(x))


class Layer(nn.Module):
    """A perceptron for each leaf, which then reads the mean of its program's leaves.

    A Transformer in its place is no better, and training takes a third longer.
    """

    def __init__(self, channels: int, dropout: float):
        super().__init__()
        self.leaf = Residual(channels, dropout)
        self.norm = nn.LayerNorm(channels)
        self.others = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return (b, l, channels) of b programs of l leaves to the same."""
        x = self.leaf(x)
        return x + self.others(self.norm(x).mean(1, keepdim=True))


def log_work(features: Tensor, operations: Tensor, loops: int) -> Tensor:
    """Return the logarithm of each leaf's work: operations, and half an iteration each.

    Args:
        features: (..., 164) float32, log2(1 + x).
        operations: (164,) how much each feature's x counts.
        loops: the column of the iterations of all loops around the leaf.
    """
    numbers = torch.exp2(features) - 1
    return torch.log1p((numbers * operations).sum(-1) + 0.5 * numbers[..., loops])


class CdmppPlus(nn.Module):
    """The network; see this module's head."""

    operations: Tensor

    def __init__(self, settings: ProgramPlusSettings, operations: Sequence[float], loops: int):
        super().__init__()
        c, dropout = settings.channels, settings.dropout
        self.loops = loops
        self.register_buffer("operations", torch.tensor(operations), persistent=False)
        self.standardize = Standardize(READ)
        self.thresholds = Thresholds()
        self.first = nn.Linear(READ + THRESHOLDS, c)
        self.layers = nn.ModuleList(Layer(c, dropout) for _ in range(settings.layers))
        self.device = perceptron(DEVICE_FEATURES, (c,), 2 * c, 0.0)
        self.on_device = Residual(c, dropout)
        self.norm = nn.LayerNorm(c)
        self.last = nn.Linear(c, 1)
        self.level = nn.Parameter(torch.zeros(()))

    def fit(self, features: Tensor, loops: Tensor, counts: Tensor, seconds: Tensor) -> None:
        """Fit what is not learned, on the training programs.

        Args:
            features: (leaves, 164) of all of them.
            loops: (leaves, 118).
            counts: (n,) leaves of each program.
            seconds: (n, d) latencies, NaN where there is none.
        """
        rows = torch.cat([features, loops], 1)
        self.standardize.fit(rows)
        self.thresholds.fit(rows)
        work = log_work(features.float(), self.operations.cpu(), self.loops)
        program = torch.repeat_interleave(torch.arange(len(counts)), counts)
        total = torch.zeros(len(counts)).index_add(0, program, work.exp()).log()
        with torch.no_grad():
            self.level.fill_((seconds.log() - total[:, None]).nanmean())

    @property
    def of_devices(self) -> nn.ModuleList:
        """The layers that read the devices, and all after them."""
        return nn.ModuleList([self.device, self.on_device, self.norm, self.last])

    def labels(self, seconds: Tensor) -> Tensor:
        """Return logarithms of latencies, float64."""
        return seconds.double().log()

    def forward(self, batch: ProgramBatch) -> Tensor:
        """Return logarithms of latencies, (b, d)."""
        return self.with_latents(batch)[0]

    def with_latents(self, batch: ProgramBatch) -> tuple[Tensor, Tensor]:
        """Return the same, and the mean of what is read of each leaf at the end, (b, d, c)."""
        features = batch.features.float()
        rows = torch.cat([features, batch.loops.float()], -1)
        numbers = self.standardize(rows).clamp(-FARTHEST, FARTHEST)
        x = self.first(torch.cat([numbers, self.thresholds(rows)], -1))  # (b, l, c)
        for layer in self.layers:
            x = layer(x)
        scale, shift = self.device(batch.devices).unsqueeze(-3).chunk(2, -1)  # (1, d, c)
        x = self.norm(self.on_device(x[:, :, None] * (1 + scale) + shift))  # (b, l, d, c)
        work = log_work(features, self.operations, self.loops)
        by_leaf = self.last(x).squeeze(-1) + work[..., None]  # (b, l, d)
        return torch.logsumexp(by_leaf, 1) + self.level, x.mean(1)

    def log_seconds(self, batch: ProgramBatch) -> Tensor:
        """Return logarithms of the predicted latencies in seconds, (b, d) float64."""
        return self(batch).double()
