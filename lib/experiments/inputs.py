"""From a cached whole graph or kernel to the segments that a network reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from lib.cache.graph import CachedGraph
from lib.cache.kernel import CachedKernel
from lib.experiments.models.segments import Segment, SegmentsBatch
from lib.experiments.settings import PoolingSettings
from lib.models.common.chunks import device_of, in_order, scores_of_rows
from lib.models.common.input import Input
from lib.models.tgraph.inputs import GraphTensors, graph_tensors
from lib.runs.memory import Estimate, free_memory, out_of_memory_told

SCORED_BYTES = 1 << 30  # of what is computed at a time in scoring, about
ADVICE = "use MODEL=gst with fewer --segment-nodes, or lower --channels or --heads"


class Segmented(ABC):
    """A graph or kernel cut into runs of nodes; edges between two are lost (algorithm 1, line 6).

    Args:
        graph: with its nodes in topological order.
        starts: (s + 1,) where each segment starts, and the last one ends.
        keep: whether prepared segments stay in memory.
    """

    def __init__(self, graph: CachedGraph | CachedKernel, starts: np.ndarray, keep: bool):
        self.graph, self.starts, self.keep = graph, starts, keep
        ends = np.searchsorted(self.starts, graph.edges, "right") - 1  # (m, 2)
        inside = np.flatnonzero(ends[:, 0] == ends[:, 1])
        self._edges = inside[np.argsort(ends[inside, 0], kind="stable")]
        self._edge_starts = np.searchsorted(ends[self._edges, 0], np.arange(len(self) + 1))
        self._tensors: dict[int, Any] = {}

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

    def edges(self, number: int) -> np.ndarray:
        """(m, 2) those within a segment, between positions in it."""
        rows = self._edges[self._edge_starts[number] : self._edge_starts[number + 1]]
        return self.graph.edges[rows] - self.starts[number]

    def tensors(self, number: int) -> Any:
        """What a segment's ways to be configured share."""
        if number in self._tensors:
            return self._tensors[number]
        tensors = self.prepared(number)
        if self.keep:
            self._tensors[number] = tensors
        return tensors

    @abstractmethod
    def prepared(self, number: int) -> Any:
        """:meth:`tensors`, made anew."""

    @abstractmethod
    def cells(self, configurations: np.ndarray) -> np.ndarray:
        """What tells some configurations apart, (b, ...); reads these only."""

    @abstractmethod
    def segment(self, number: int, cells: np.ndarray, places: np.ndarray | None = None) -> Segment:
        """One segment under configurations.

        Args:
            number: the segment's.
            cells: (b, ...), of :meth:`cells`.
            places: which of the b to compute it for; None for all.
        """

    @abstractmethod
    def run(self, start: int, stop: int) -> np.ndarray:
        """Where the nodes from ``start`` to ``stop`` of an uncut graph are in its tensors."""


class SegmentedGraph(Segmented):
    """A graph whose configurations are layouts.

    Args:
        graph: with its nodes in topological order.
        segment_nodes: K, most nodes of a segment; 0 for one segment of all nodes.
        cut: ``length``, every K nodes, or ``splits``, see :func:`boundaries`.
        keep: whether prepared segments stay in memory.
    """

    def __init__(self, graph: CachedGraph, segment_nodes: int, cut: str, keep: bool = False):
        splits = graph.node_splits if cut == "splits" else ()
        super().__init__(graph, boundaries(len(graph.node_opcode), segment_nodes, splits), keep)
        self.configurable = np.searchsorted(self.starts, graph.config_nodes, "right") - 1  # (k,)

    def cells(self, configurations: np.ndarray) -> np.ndarray:
        """The layouts of each configuration, (b, k)."""
        return np.asarray(self.graph.cells[configurations])

    def segment(self, number: int, cells: np.ndarray, places: np.ndarray | None = None) -> Segment:
        """A segment under configurations, once for each way in which they differ in it."""
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
        """What the network reads of a segment, the configurable nodes first, see
        :class:`lib.models.tgraph.inputs.GraphTensors`.
        """
        other_nodes = np.setdiff1d(np.arange(self.node_count), self.graph.config_nodes)
        order = np.concatenate([self.graph.config_nodes, other_nodes])
        return np.flatnonzero((order >= start) & (order < stop))

    def prepared(self, number: int) -> GraphTensors:
        """The nodes, edges and configurable nodes of a segment."""
        start, stop = self.starts[number], self.starts[number + 1]
        inside = self.configurable == number
        cut_out = replace(
            self.graph,
            node_feat=self.graph.node_feat[start:stop],
            node_opcode=self.graph.node_opcode[start:stop],
            edges=self.edges(number),
            config_nodes=self.graph.config_nodes[inside] - start,
        )
        return graph_tensors(cut_out)


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


def segments_batch(graph: Segmented, configurations: np.ndarray) -> SegmentsBatch:
    """A graph under some configurations, all of its segments to be computed."""
    cells = graph.cells(configurations)

    segments = (graph.segment(number, cells) for number in range(len(graph)))
    return SegmentsBatch(len(cells), graph.node_count, segments)


def segments_scores(
    network: nn.Module, graph: Segmented, size: int, rows: np.ndarray | None = None
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

    Raises:
        UserError: if there is not enough memory for a single configuration.
    """
    nodes, edges = graph.largest()
    configuration_bytes, device = network.forward_bytes(nodes, edges), device_of(network)
    if device.type == "cpu":
        most = min(SCORED_BYTES, (free_memory() or 2 * SCORED_BYTES) // 2)
        size = max(1, min(size, most // configuration_bytes))
    what = f"scoring {graph.graph.name} ({nodes:,} nodes at once, {size} configurations)"
    with out_of_memory_told(Estimate(size * configuration_bytes, what, ADVICE), device):
        return scores_of_rows(
            lambda chosen: network(segments_batch(graph, chosen)),
            len(graph.graph.runtime),
            rows,
            lambda count: in_order(count, size),
        )


def segmented(graph: CachedGraph, settings: PoolingSettings, keep: bool = False) -> SegmentedGraph:
    """A graph cut as a model's settings say."""
    return SegmentedGraph(graph, settings.segment_nodes, settings.cut, keep)


INPUT = Input(prepare=segmented, scores=segments_scores)
