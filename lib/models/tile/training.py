"""The kernels of one fold of a tile collection, read from the cache when they are needed.

A step takes several kernels, since one of two configurations would make a step of one pair, and
of each a sample of its configurations. The paper says "17.5 epochs" and no more of batching. A
kernel counts the same whatever its size, as it does in the metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lib.cache.kernel import CachedKernel
from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.models.common.settings import TileCollection
from lib.models.tile.inputs import kernel_batch, tile_batch
from lib.models.tile.network import TileNetwork
from lib.models.tile.settings import TileSettings
from lib.ranking.metrics import tile_metrics
from lib.tpugraphs.dataset import SAME
from lib.training.fold import Batch, Fold
from lib.training.loss import LOSSES
from lib.training.split import LabelledGraph, folds_with

STATISTICS_ROWS = 256  # configurations of a kernel that the standardization sees, evenly spaced
ROWS = 1 << 12  # compared at a time


@dataclass(eq=False)
class KernelsFold(Fold):
    """Names of the training and validation kernels of one fold, sorted."""

    cache: Cache
    metrics = staticmethod(tile_metrics)

    @classmethod
    def load(cls, cache: Cache, fold: int, settings: TileSettings) -> KernelsFold:
        """The kernels of a fold; raises as :func:`sides_of`."""
        return cls(*sides_of(cache, fold, settings), settings, cache)

    def standardize(self, network: TileNetwork) -> None:
        """Fit both transforms, with one kernel in memory at a time."""
        network.kernel.standardize.fit_chunks(
            lambda: (kernel_batch([self.cache.graph(name)]).features for name in self.train)  # type: ignore[list-item]
        )
        network.standardize.fit_chunks(
            lambda: (evenly_spaced(self.cache.graph(name)) for name in self.train)  # type: ignore[arg-type]
        )

    def read(self, name: str) -> LabelledGraph:
        kernel = self.cache.graph(name)
        return LabelledGraph(name, kernel, kernel.target)  # type: ignore[attr-defined]

    def steps(self) -> int:
        return -(-len(self.train) // self.settings.kernels)

    def batch(
        self,
        graphs: Sequence[LabelledGraph],
        rows: Sequence[np.ndarray],
        generator: np.random.Generator,
    ) -> Batch:
        """Return several kernels side by side, each under its own tile sizes."""
        pairs = zip(graphs, rows, strict=True)
        runtimes = [torch.from_numpy(kernel.runtime[some]) for kernel, some in pairs]
        batch = tile_batch([kernel.prepared for kernel in graphs], rows)
        return Batch(batch, runtimes, LOSSES[self.settings.loss])


def sides_of(cache: Cache, fold: int, settings: TileCollection) -> tuple[list[str], list[str]]:
    """Names of the kernels of the merged train and valid splits to train and to validate on.

    Kernels whose configurations look the same are left out of training, too. Of these the network
    must choose blindly, and validation shows it.

    Raises:
        UserError: if there is no such fold, or there are too few kernels.
    """
    assigned = folds_with(cache, fold, settings)
    valid = [name for name in sorted(assigned) if assigned[name] == fold]
    candidates = [name for name in sorted(assigned) if assigned[name] != fold]
    train = [name for name in candidates if _rows_differ(cache.graph(name).config_feat)]  # type: ignore[attr-defined]
    if not train:
        why = f"{SAME} of each kernel that it would be trained on"
        raise UserError(f"{cache.folder}: fold {fold}: {why}: {', '.join(candidates)}")
    return train, valid


def evenly_spaced(kernel: CachedKernel) -> Tensor:
    """Return the configurations of a kernel that tiles are standardized by, (at most 256, 24)."""
    step = -(-len(kernel.config_feat) // STATISTICS_ROWS)
    return torch.from_numpy(np.array(kernel.config_feat[::step]))


def _rows_differ(rows: np.ndarray) -> bool:
    chunks = (rows[start : start + ROWS] for start in range(0, len(rows), ROWS))
    return any((chunk != rows[0]).any() for chunk in chunks)
