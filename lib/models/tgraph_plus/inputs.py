"""From a cached graph to what its configurations make a compiler do, as tensors."""

from __future__ import annotations

import numpy as np
import torch

from lib.cache.graph import CachedGraph
from lib.compiler.cpu.resolved import WIDTHS
from lib.models.common.chunks import batched_scores
from lib.models.common.input import Input
from lib.models.tgraph.inputs import places_of, program_alone
from lib.models.tgraph_plus.network import CostBatch

KEPT_WHOLE = 64  # configurations at most of a graph whose batch is kept


class CopiesGraph:
    """A graph whose configurations were resolved by stage 1 (:mod:`lib.compiler.cpu.resolved`).

    Args:
        graph: as cached.
    """

    def __init__(self, graph: CachedGraph):
        self.graph, self.program = graph, program_alone(graph)
        counts = np.bincount(graph.effects[:, 0], minlength=len(WIDTHS))
        self._first = np.cumsum([0, *counts])
        parts = np.split(graph.effect_feat, np.cumsum(counts * WIDTHS)[:-1])
        self._features = [
            part.reshape(-1, width) for part, width in zip(parts, WIDTHS, strict=True)
        ]
        self._nodes = places_of(graph)[graph.effects[:, 1:]].astype(np.int64)
        self._starts = np.searchsorted(graph.happens[:, 0], np.arange(len(graph.cells) + 1))
        self._whole: CostBatch | None = None

    def batch(self, configurations: np.ndarray) -> CostBatch:
        """Return the effects of some configurations, (b,) positions in the cache's cells.

        A batch of all of them, of a graph that has few, is made once: every step of training on
        the graph has it.
        """
        count = len(self.graph.cells)
        if count > KEPT_WHOLE or not np.array_equal(configurations, np.arange(count)):
            return self._made(configurations)
        self._whole = self._whole or self._made(configurations)
        return self._whole

    def _made(self, configurations: np.ndarray) -> CostBatch:
        columns, effects = self._happening(configurations)
        nodes = self._nodes[effects]  # (p, 2)
        count = self.program.node_count
        cells, ends = np.unique(columns[:, None] * count + nodes, return_inverse=True)
        ends = ends.reshape(nodes.shape)
        distinct, which = np.unique(effects, return_inverse=True)
        kinds = self.graph.effects[distinct, 0]
        return CostBatch(
            kinds=torch.from_numpy(kinds.astype(np.int64)),
            features=torch.from_numpy(self._features_of(kinds, distinct)),
            sizes=torch.from_numpy(self.graph.effect_sizes[distinct]),
            places=torch.from_numpy(np.stack([columns, which], axis=1)),
            ends=torch.from_numpy(ends),
            nodes=torch.from_numpy(cells % count),
            program=self.program,
            configurations=len(configurations),
        )

    def _features_of(self, kinds: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """Features of some effects, in the columns of their kinds."""
        features = np.zeros((len(effects), sum(WIDTHS)), np.float32)
        starts = np.cumsum([0, *WIDTHS])
        for kind, known in enumerate(self._features):
            own = kinds == kind
            features[own, starts[kind] : starts[kind + 1]] = known[effects[own] - self._first[kind]]
        return features

    def _happening(self, configurations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a configuration's position among these and an effect, (p,) int64 each."""
        starts, ends = self._starts[configurations], self._starts[configurations + 1]
        counts = ends - starts
        columns = np.repeat(np.arange(len(configurations)), counts)
        rows = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return columns, self.graph.happens[rows, 1].astype(np.int64)


INPUT = Input(
    prepare=lambda graph, settings: CopiesGraph(graph),
    scores=batched_scores,
    widths=lambda settings: {"widths": WIDTHS},
)
