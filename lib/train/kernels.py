"""The kernels of one fold of a tile collection, read from the cache when they are needed.

A step takes several kernels, since one of two configurations would make a step of one pair, and
of each a sample of its configurations. The paper says "17.5 epochs" and no more of batching. A
kernel counts the same whatever its size, as it does in the metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lib.cache.kernel import CachedKernel
from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.inputs.kernels import kernel_batch, kernel_scores, tile_batch
from lib.models.tile import TileBatch, TileNetwork
from lib.ranking.metrics import tile_metrics
from lib.train.loss import pairwise_hinge
from lib.train.split import folds_with
from lib.train.state import Stateless

STATISTICS_ROWS = 256  # configurations of a kernel that the standardization sees, evenly spaced
ROWS = 1 << 12  # compared at a time


@dataclass(frozen=True, eq=False)
class TileSample:
    """A step's input, and for each of its kernels the (b,) targets of its configurations."""

    inputs: TileBatch
    targets: list[Tensor]

    @property
    def size(self) -> int:
        """Number of configurations."""
        return sum(map(len, self.targets))

    def to(self, device: torch.device) -> TileSample:
        """The same sample on another device."""
        targets = [target.to(device, non_blocking=True) for target in self.targets]
        return TileSample(self.inputs.to(device), targets)

    def loss(self, scores: Tensor) -> Tensor:
        """Mean over kernels of the pairwise hinge loss (equation 8) within each."""
        parts = scores.split([len(targets) for targets in self.targets])
        losses = [pairwise_hinge(s, t) for s, t in zip(parts, self.targets, strict=True)]
        return torch.stack(losses).mean()


@dataclass(frozen=True)
class TileFold(Stateless):
    """Names of the training and validation kernels of one fold, sorted."""

    cache: Cache
    train: list[str]
    valid: list[str]

    def standardize(self, network: TileNetwork) -> None:
        """Fit both standardizations on the training kernels, one of them in memory at a time."""
        network.kernel.standardize.fit_chunks(
            lambda: (kernel_batch([self.cache.graph(name)]).features for name in self.train)
        )
        network.standardize.fit_chunks(
            lambda: (_evenly_spaced(self.cache.graph(name)) for name in self.train)
        )

    def steps(self, settings: Any) -> int:
        """How many :meth:`samples` there are."""
        return -(-len(self.train) // settings.kernels)

    def samples(self, settings: Any, generator: np.random.Generator) -> Iterator[TileSample]:
        """One pass: every training kernel once, its configurations drawn anew.

        Groups differ in size by one kernel at most, so that no step is left with a remainder.
        """
        order = generator.permutation(len(self.train))
        for group in np.array_split(order, self.steps(settings)):
            kernels = [self.cache.graph(self.train[index]) for index in group]
            rows = [_drawn(kernel, settings.configurations, generator) for kernel in kernels]
            targets = [torch.from_numpy(k.target[r]) for k, r in zip(kernels, rows, strict=True)]
            yield TileSample(tile_batch(kernels, rows), targets)

    def validate(self, network: TileNetwork, settings: Any) -> dict[str, dict[str, float]]:
        """Metrics of each validation kernel; empty if a score is not finite."""
        metrics = {}
        for name in self.valid:
            kernel = self.cache.graph(name)
            scores = kernel_scores(network, kernel, settings.inference_configurations)
            if not np.isfinite(scores).all():
                return {}
            metrics[name] = tile_metrics(scores, kernel.target)
        return metrics


def load_fold(cache: Cache, fold: int, settings: Any) -> TileFold:
    """The labelled kernels of the merged train and valid splits, dealt to one fold.

    Kernels that have nothing to rank, because all their configurations ran equally fast or look
    the same, are left out of training. Validation leaves out only those that all ran equally
    fast: of configurations that look the same the network must choose blindly, and it shows.

    Raises:
        UserError: if there is no such fold, or a side of it is empty.
    """
    assigned = folds_with(fold, cache, settings)
    train, valid = [], []
    for name in sorted(assigned):
        kernel = cache.graph(name)
        if not kernel.labelled or len(set(_extremes(kernel.target))) < 2:
            continue
        if assigned[name] == fold:
            valid.append(name)
        elif _rows_differ(kernel.config_feat):
            train.append(name)
    if not train or not valid:
        raise UserError(f"{cache.folder}: fold {fold} has no labelled graphs to train or validate")
    return TileFold(cache, train, valid)


def _drawn(kernel: CachedKernel, most: int, generator: np.random.Generator) -> np.ndarray:
    """Up to ``most`` configurations of a kernel, ascending."""
    count = len(kernel.runtime)
    return np.sort(generator.choice(count, min(count, most), replace=False))


def _evenly_spaced(kernel: CachedKernel) -> Tensor:
    step = -(-len(kernel.config_feat) // STATISTICS_ROWS)
    return torch.from_numpy(np.array(kernel.config_feat[::step]))


def _extremes(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _rows_differ(rows: np.ndarray) -> bool:
    chunks = (rows[start : start + ROWS] for start in range(0, len(rows), ROWS))
    return any((chunk != rows[0]).any() for chunk in chunks)
