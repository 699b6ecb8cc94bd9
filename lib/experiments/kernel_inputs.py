"""From a cached kernel to the segments that a network reads, each under tile configurations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from lib.cache.kernel import CachedKernel
from lib.experiments.inputs import Segmented, boundaries, segments_scores
from lib.experiments.models.kernel_segments import TiledBatch
from lib.experiments.models.segments import Segment
from lib.experiments.settings import PoolingSettings
from lib.models.common.input import Input
from lib.models.tile.inputs import kernel_batch
from lib.models.tile.network import KernelBatch


class SegmentedKernel(Segmented):
    """A kernel cut into runs of nodes. A configuration reaches every node of all of them.

    Args:
        kernel: with its nodes in topological order.
        segment_nodes: K, most nodes of a segment; 0 for one segment of all nodes.
        keep: whether prepared segments stay in memory.
    """

    def __init__(self, kernel: CachedKernel, segment_nodes: int, keep: bool = False):
        super().__init__(kernel, boundaries(len(kernel.node_opcode), segment_nodes), keep)

    def cells(self, configurations: np.ndarray) -> np.ndarray:
        """The tile of each configuration, (b, 24) float32."""
        return np.array(self.graph.config_feat[configurations])

    def segment(self, number: int, cells: np.ndarray, places: np.ndarray | None = None) -> Segment:
        """A segment under some configurations, whose tile sizes every node of it has."""
        places = np.arange(len(cells)) if places is None else places
        nodes = self.tensors(number)
        graph = TiledBatch(
            features=nodes.features,
            opcode=nodes.opcode,
            layout=nodes.layout,
            configurations=torch.from_numpy(cells[places]),
            sources=nodes.sources,
            pointers=nodes.pointers,
        )
        index = torch.arange(len(places))
        return Segment(graph=graph, places=torch.from_numpy(places), index=index, number=number)

    def run(self, start: int, stop: int) -> np.ndarray:
        """What the network reads of a segment, in the nodes' own order."""
        return np.arange(start, stop)

    def prepared(self, number: int) -> KernelBatch:
        """The nodes and edges of a segment."""
        start, stop = self.starts[number], self.starts[number + 1]
        cut_out = replace(
            self.graph,
            node_feat=self.graph.node_feat[start:stop],
            node_opcode=self.graph.node_opcode[start:stop],
            edges=self.edges(number),
        )
        return kernel_batch([cut_out])


def segmented(kernel: CachedKernel, settings: PoolingSettings, keep: bool = False):
    """A kernel cut as a model's settings say."""
    return SegmentedKernel(kernel, settings.segment_nodes, keep)


INPUT = Input(prepare=segmented, scores=segments_scores)
