"""Training the GST thesis' models on kernels, a kernel a step, read when it is needed."""

from __future__ import annotations

from typing import Any

from torch import nn

from lib.cache.reader import Cache
from lib.experiments.fold import SegmentsFold
from lib.experiments.kernel_inputs import segmented
from lib.models.common.settings import TileCollection
from lib.models.tile.inputs import kernel_batch
from lib.models.tile.training import evenly_spaced, sides_of
from lib.ranking.metrics import tile_metrics
from lib.training.split import LabelledGraph


class KernelSegmentsFold(SegmentsFold):
    """Names of the training and validation kernels of one fold, sorted, and a model's steps."""

    metrics = staticmethod(tile_metrics)
    prepare = staticmethod(segmented)

    @classmethod
    def load(cls, cache: Cache, fold: int, settings: TileCollection) -> KernelSegmentsFold:
        """The kernels of a fold; raises as :func:`lib.models.tile.training.sides_of`."""
        return cls(*sides_of(cache, fold, settings), settings, cache)

    def standardize(self, network: nn.Module) -> None:
        """Fit the transforms of features and tiles, with one kernel in memory at a time."""
        inputs = network.inputs
        inputs.standardize.fit_chunks(
            lambda: (kernel_batch([self.cache.graph(name)]).features for name in self.train)
        )
        inputs.tiles.fit_chunks(
            lambda: (evenly_spaced(self.cache.graph(name)) for name in self.train)
        )

    def read(self, name: Any) -> LabelledGraph:
        kernel = self.graph(name)
        return LabelledGraph(name, kernel, kernel.graph.target)
