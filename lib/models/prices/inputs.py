"""From a cached graph to its configurable nodes under their layouts, as tensors."""

from __future__ import annotations

import numpy as np
import torch

from lib.cache.codec import DIGITS, TENSORS, decode_layouts
from lib.cache.graph import CachedGraph
from lib.compiler.graph import TensorGraph
from lib.compiler.tpu import (
    PRODUCT_FEATURES,
    ROLE_OF_FEATURE,
    ConfiguredNodes,
    output_padding,
    product_features,
)
from lib.models.common.chunks import batched_scores
from lib.models.common.input import Input
from lib.models.prices.network import PricedBatch


class ProductsGraph:
    """A graph whose configurations are looked up as they are needed.

    Args:
        graph: whole, or the part that pruning kept.
    """

    def __init__(self, graph: CachedGraph):
        self.graph, self.nodes = graph, ConfiguredNodes(TensorGraph.of(graph))
        layouts = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)
        none = np.full((1, TENSORS, DIGITS), -1, layouts.dtype)
        self.layouts = np.concatenate([layouts, none])
        work = self.nodes.work
        self.share = work / max(1.0, work.sum())
        place = np.arange(len(work))
        unset = np.full((len(work), TENSORS, DIGITS), -1)
        known = np.column_stack(
            [
                product_features(self.nodes, place, unset),
                self.nodes.sizes.reshape(len(work), -1),
                self.nodes.plain.reshape(len(work), -1),
            ]
        )
        _, first, same = np.unique(known, axis=0, return_index=True, return_inverse=True)
        self._like = first[same.ravel()]  # of each node the first one that is as it is

    def batch(self, configurations: np.ndarray) -> PricedBatch:
        """Some configurations, (b,) integers: their positions in the cache's cells."""
        return self._of_cells(np.asarray(self.graph.cells[configurations]).astype(np.int64))

    def _of_cells(self, cells: np.ndarray) -> PricedBatch:
        """Nodes under layouts, (b, k) places in :attr:`layouts`."""
        keys, places = np.unique(cells * len(self._like) + self._like, return_inverse=True)
        layout, place = np.divmod(keys, max(1, len(self._like)))
        layouts = self.layouts[layout]
        padding = output_padding(self.nodes, place, layouts)
        return PricedBatch(
            features=torch.from_numpy(product_features(self.nodes, place, layouts)),
            padding=torch.from_numpy(padding.astype(np.float32)),
            share=torch.from_numpy(self.share[place].astype(np.float32)),
            places=torch.from_numpy(places.reshape(cells.shape)),
        )


INPUT = Input(
    prepare=lambda graph, settings: ProductsGraph(graph),
    scores=batched_scores,
    widths=lambda settings: {"width": len(PRODUCT_FEATURES), "roles": ROLE_OF_FEATURE},
)
