"""From a cached whole graph to the segments that a network reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from lib.cache.graph import CachedGraph
from lib.inputs.chunks import chunk_scores, device_of, in_order
from lib.inputs.tensors import GraphTensors, graph_tensors
from lib.models.segments import Segment, SegmentsBatch
from lib.runs.memory import Estimate, free_memory, out_of_memory_told
from lib.settings import PoolingSettings

SCORED_BYTES = 1 << 30  # of what is computed at a time in scoring, about
ADVICE = "use MODEL=gst with fewer --segment-nodes, or lower --channels or --heads"


class SegmentedGraph:
    """A graph cut into runs of nodes; edges between two of them are lost (algorithm 1, line 6).

    Args:
        graph: with its nodes in topological order.
        segment_nodes: K, most nodes of a segment; 0 for one segment of all nodes.
        cut: ``length``, every K nodes, or ``splits``, see :func:`boundaries`.
        keep: whether prepared segments stay in memory.

    Attributes:
        starts: (s + 1,) where each segment starts, and the last one ends.
    """

    def __init__(self, graph: CachedGraph, segment_nodes: int, cut: str, keep: bool = False):
        self.graph, self.keep = graph, keep
        count = len(graph.node_opcode)
        self.starts = boundaries(count, segment_nodes, graph.node_splits if cut == "splits" else ())
        self.configurable = np.searchsorted(self.starts, graph.config_nodes, "right") - 1  # (k,)
        ends = np.searchsorted(self.starts, graph.edges, "right") - 1  # (m, 2)
        inside = np.flatnonzero(ends[:, 0] == ends[:, 1])
        self._edges = inside[np.argsort(ends[inside, 0], kind="stable")]
        self._edge_starts = np.searchsorted(ends[self._edges, 0], np.arange(len(self) + 1))
        self._tensors: dict[int, GraphTensors] = {}

    def __len__(self) -> int:
        """Number of segments."""
        return len(self.starts) - 1

    @property
    def node_count(self) -> int:
        """Number of nodes of the whole graph."""
        return int(self.starts[-1])

    def largest(self) -> tuple[int, int]:
        """Nodes and edges of the largest segment: (the most of either)."""
        return int(np.diff(self.starts).max()), int(np.diff(self._edge_starts).max())

    def cells(self, configurations: np.ndarray) -> np.ndarray:
        """(b, k) cells of some configurations; reads these only."""
        return np.asarray(self.graph.cells[configurations])

    def segment(self, number: int, cells: np.ndarray, places: np.ndarray | None = None) -> Segment:
        """One segment, once for each way in which the configurations differ in it.

        Args:
            number: the segment's.
            cells: (b, k), of :meth:`cells`.
            places: which of the b to compute it for; None for all.
        """
        places = np.arange(len(cells)) if places is None else places
        own = cells[places][:, self.configurable == number]
        if own.shape[1]:
            distinct, index = np.unique(own, axis=0, return_inverse=True)
        else:  # no configuration reaches it
            distinct, index = own[:1], np.zeros(len(places), np.int64)
        tensors = replace(self.tensors(number), cells=distinct)
        return Segment(
            graph=tensors.batch(np.arange(len(distinct))),
            places=torch.from_numpy(places),
            index=torch.from_numpy(index.reshape(-1)),
            number=number,
        )

    def tensors(self, number: int) -> GraphTensors:
        """What a segment's ways to be configured share."""
        if number in self._tensors:
            return self._tensors[number]
        made = graph_tensors(self._cut_out(number))
        if self.keep:
            self._tensors[number] = made
        return made

    def _cut_out(self, number: int) -> CachedGraph:
        start, stop = self.starts[number], self.starts[number + 1]
        own = self.configurable == number
        edges = self._edges[self._edge_starts[number] : self._edge_starts[number + 1]]
        return replace(
            self.graph,
            node_feat=self.graph.node_feat[start:stop],
            node_opcode=self.graph.node_opcode[start:stop],
            edges=self.graph.edges[edges] - start,
            config_nodes=self.graph.config_nodes[own] - start,
        )


def boundaries(count: int, segment_nodes: int, splits: Iterable[int] = ()) -> np.ndarray:
    """Where segments of at most ``segment_nodes`` start, and the last one ends, (s + 1,) int64.

    A segment ends at the last of ``splits`` that it reaches, so that parts of the program stay
    whole and small ones share a segment; where it reaches none, it ends after ``segment_nodes``.

    Args:
        count: nodes, at least one.
        segment_nodes: K; 0 for all.
        splits: ascending positions that a cut had better be at.
    """
    if not segment_nodes:
        return np.array([0, count])
    splits = np.asarray(list(splits), np.int64)
    starts = [0]
    while starts[-1] < count:
        furthest = min(starts[-1] + segment_nodes, count)
        reached = splits[(splits > starts[-1]) & (splits <= furthest)]
        whole = len(reached) and furthest < count
        starts.append(int(reached[-1]) if whole else furthest)
    return np.array(starts)


def segments_batch(graph: SegmentedGraph, configurations: np.ndarray) -> SegmentsBatch:
    """A graph under some configurations, all of its segments to be computed."""
    cells = graph.cells(configurations)

    segments = (graph.segment(number, cells) for number in range(len(graph)))
    return SegmentsBatch(len(cells), graph.node_count, segments)


def segments_scores(network: nn.Module, graph: SegmentedGraph, size: int) -> np.ndarray:
    """Scores of every configuration of a graph, (c,) float64.

    A score does not depend on which configurations are scored with it, but for rounding. How many
    are, the graph decides and not what else has memory on this machine: the same scores to the
    bit, unless memory is so short on the CPU that even fewer must do.

    Args:
        network: in evaluation mode.
        graph: the graph.
        size: configurations at a time, at most.

    Raises:
        UserError: if there is not enough memory for a single configuration.
    """
    nodes, edges = graph.largest()
    each, device = network.forward_bytes(nodes, edges), device_of(network)
    if device.type == "cpu":
        most = min(SCORED_BYTES, (free_memory() or 2 * SCORED_BYTES) // 2)
        size = max(1, min(size, most // each))
    what = f"scoring {graph.graph.name} ({nodes:,} nodes at once, {size} configurations)"
    count = len(graph.graph.cells)
    with out_of_memory_told(Estimate(size * each, what, ADVICE), device):
        return chunk_scores(
            lambda chosen: network(segments_batch(graph, chosen)), in_order(count, size), count
        )


def segmented(graph: CachedGraph, settings: PoolingSettings, keep: bool = False) -> SegmentedGraph:
    """A graph cut as a model's settings say."""
    return SegmentedGraph(graph, settings.segment_nodes, settings.cut, keep)
