"""From a cached whole graph to the segments that a network reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from lib.cache.graph import CachedGraph
from lib.models.common.chunks import device_of, scores_of
from lib.models.common.input import Input
from lib.models.segments.batch import Segment, SegmentsBatch
from lib.models.segments.settings import LayoutPooling
from lib.models.tgraph.inputs import GraphTensors, graph_tensors
from lib.runs.memory import free_memory

SCORED_BYTES = 1 << 30  # of what is computed at a time in scoring, roughly


class SegmentedGraph:
    """A graph cut into runs of nodes; edges between two are lost (algorithm 1, line 6).

    Args:
        graph: with its nodes in topological order.
        segment_nodes: K, most nodes of a segment; 0 for one segment of all nodes.
        keep: whether prepared segments stay in memory.
    """

    def __init__(self, graph: CachedGraph, segment_nodes: int, keep: bool = False):
        self.graph, self.keep = graph, keep
        self.starts = boundaries(len(graph.node_opcode), segment_nodes)  # (s + 1,)
        ends = np.searchsorted(self.starts, graph.edges, "right") - 1  # (m, 2)
        inside = np.flatnonzero(ends[:, 0] == ends[:, 1])
        self._edges = inside[np.argsort(ends[inside, 0], kind="stable")]
        self._edge_starts = np.searchsorted(ends[self._edges, 0], np.arange(len(self) + 1))
        self.configurable = np.searchsorted(self.starts, graph.config_nodes, "right") - 1  # (k,)
        self._tensors: dict[int, GraphTensors] = {}

    def __len__(self) -> int:
        """Number of segments."""
        return len(self.starts) - 1

    @property
    def node_count(self) -> int:
        """Number of nodes of the whole graph."""
        return int(self.starts[-1])

    def largest(self) -> tuple[int, int]:
        """Return the most nodes and the most edges that a segment has."""
        return int(np.diff(self.starts).max()), int(np.diff(self._edge_starts).max())

    def cells(self, configurations: np.ndarray) -> np.ndarray:
        """Return the layouts of each configuration, (b, k), and read these only."""
        return np.asarray(self.graph.cells[configurations])

    def segment(self, number: int, cells: np.ndarray, places: np.ndarray | None = None) -> Segment:
        """Return a segment under configurations, once for each way in which they differ in it.

        Args:
            number: the segment's.
            cells: (b, k), of :meth:`cells`.
            places: which of the b to compute it for; None for all.
        """
        places = np.arange(len(cells)) if places is None else places
        segment_cells = cells[places][:, self.configurable == number]
        if segment_cells.shape[1]:
            distinct, index = np.unique(segment_cells, axis=0, return_inverse=True)
        else:  # no configuration reaches it
            distinct, index = segment_cells[:1], np.zeros(len(places), np.int64)
        tensors = replace(self.tensors(number), cells=distinct)
        return Segment(
            graph=tensors.batch(np.arange(len(distinct))),
            places=torch.from_numpy(places),
            index=torch.from_numpy(index.reshape(-1)),
            number=number,
        )

    def run(self, start: int, stop: int) -> np.ndarray:
        """Return where the nodes from ``start`` to ``stop`` of an uncut graph are in its tensors:
        the configurable nodes come first, see :class:`lib.models.tgraph.inputs.GraphTensors`.
        """
        other_nodes = np.setdiff1d(np.arange(self.node_count), self.graph.config_nodes)
        order = np.concatenate([self.graph.config_nodes, other_nodes])
        return np.flatnonzero((order >= start) & (order < stop))

    def tensors(self, number: int) -> GraphTensors:
        """Return the nodes, edges and configurable nodes of a segment."""
        if number in self._tensors:
            return self._tensors[number]
        start, stop = self.starts[number], self.starts[number + 1]
        edges = self._edges[self._edge_starts[number] : self._edge_starts[number + 1]]
        cut_out = replace(
            self.graph,
            node_feat=self.graph.node_feat[start:stop],
            node_opcode=self.graph.node_opcode[start:stop],
            edges=self.graph.edges[edges] - start,
            config_nodes=self.graph.config_nodes[self.configurable == number] - start,
        )
        tensors = graph_tensors(cut_out)
        if self.keep:
            self._tensors[number] = tensors
        return tensors


def boundaries(count: int, segment_nodes: int) -> np.ndarray:
    """Return where segments of at most ``segment_nodes`` of a graph's ``count`` nodes start, and
    the last ends, (s + 1,) int64; one segment has all nodes if that is 0."""
    return np.array([*range(0, count, segment_nodes or count), count])


def segments_batch(graph: SegmentedGraph, configurations: np.ndarray) -> SegmentsBatch:
    """A graph under some configurations, all of its segments to be computed."""
    cells = graph.cells(configurations)

    segments = (graph.segment(number, cells) for number in range(len(graph)))
    return SegmentsBatch(len(cells), graph.node_count, segments)


def segments_scores(
    network: nn.Module, graph: SegmentedGraph, size: int, rows: np.ndarray
) -> np.ndarray:
    """Scores of a graph's configurations, (r,) float64.

    A score does not depend on which configurations are scored with it, but for rounding. How many
    are, the graph decides and not what else has memory on this machine: the same scores to the
    bit, unless memory is so short on the CPU that even fewer must do.

    Args:
        network: in evaluation mode.
        graph: the graph.
        size: configurations at a time, at most.
        rows: (r,) positions of configurations in the cache; ``None`` for all.
    """
    nodes, edges = graph.largest()
    configuration_bytes, device = network.forward_bytes(nodes, edges), device_of(network)
    if device.type == "cpu":
        most = min(SCORED_BYTES, (free_memory() or 2 * SCORED_BYTES) // 2)
        size = max(1, min(size, most // configuration_bytes))
    return scores_of(lambda some: network(segments_batch(graph, some)), rows, size)


def segmented(graph: CachedGraph, settings: LayoutPooling, keep: bool = False) -> SegmentedGraph:
    """Return a graph cut as a model's settings say."""
    return SegmentedGraph(graph, settings.segment_nodes, keep)


INPUT = Input(
    prepare=segmented,
    scores=segments_scores,
    takes_less="use MODEL=gst with fewer --segment-nodes, or lower --configurations or --channels",
)
