"""Steps on a whole graph: a class for each model, which its settings name.

Everything with gradients (GAT, Pooling), a run of nodes with gradients (Partitioning), or a few
segments with gradients and the others from the historical table (GST).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.models.segments.batch import Segment, SegmentsBatch
from lib.models.segments.embeddings import EmbeddingTable
from lib.models.segments.gat import attention_bytes, forward_bytes
from lib.models.segments.inputs import SegmentedGraph, boundaries, segments_batch
from lib.models.segments.settings import LayoutAttention, LayoutSegments
from lib.runs.memory import Estimate

ADVICE = "use MODEL=gst, or lower --configurations, --channels or --heads"


class FullSteps:
    """Steps with gradients everywhere.

    Args:
        cache: of whole graphs.
        names: of the training graphs.
        settings: the model's.
    """

    def __init__(self, cache: Cache, names: list[str], settings: LayoutAttention):
        self.cache, self.names, self.settings = cache, names, settings

    def batch(
        self, graph: SegmentedGraph, configurations: np.ndarray, generator: np.random.Generator
    ) -> SegmentsBatch:
        """A graph under some configurations; all that is random comes from ``generator``."""
        return segments_batch(graph, configurations)

    def done(self, graph: SegmentedGraph, configurations: np.ndarray, batch: SegmentsBatch) -> None:
        """Note what the step has computed."""

    def state(self) -> dict[str, torch.Tensor]:
        """Return what a checkpoint needs besides the network."""
        return {}

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> bool:
        """Take a :meth:`state` back; return whether it fits."""
        return not tensors

    def estimate(self) -> Estimate | None:
        """Bytes of a step on the training graph that takes most."""
        name, needed = max(((n, self._bytes(n)) for n in self.names), key=lambda pair: pair[1])
        s, nodes = self.settings, self.cache.rows[name]["nodes"]
        count = self._configurations(name)
        what = f"a step of {s.model} on {name} ({nodes:,} nodes, {count} configurations)"
        return Estimate(needed, what, ADVICE, round(s.memory_gigabytes * 1e9))

    def _bytes(self, name: str) -> int:
        s, row = self.settings, self.cache.rows[name]
        sizes = row["nodes"], row["edges"], self._configurations(name)
        return attention_bytes(*sizes, s.channels, s.layers, s.heads)

    def _configurations(self, name: str) -> int:
        return min(self.settings.configurations, self.cache.rows[name]["configurations"])


class PoolingSteps(FullSteps):
    """Steps of the Pooling Model, which takes next to nothing."""

    def estimate(self) -> Estimate | None:
        """Return nothing."""
        return None


class RunSteps(FullSteps):
    """Steps with gradients in a random contiguous run of nodes (GST thesis, section 4)."""

    def batch(
        self, graph: SegmentedGraph, configurations: np.ndarray, generator: np.random.Generator
    ) -> SegmentsBatch:
        """The whole graph, with gradients in the nodes of one run."""
        length = min(self.settings.trained_nodes, graph.node_count)
        start = int(generator.integers(graph.node_count - length + 1))
        nodes = torch.from_numpy(graph.run(start, start + length))
        whole = replace(graph.segment(0, graph.cells(configurations)), nodes=nodes)
        return SegmentsBatch(len(configurations), graph.node_count, [whole])

    def _bytes(self, name: str) -> int:
        s, row = self.settings, self.cache.rows[name]
        nodes, edges, count = row["nodes"], row["edges"], self._configurations(name)
        share = min(1.0, s.trained_nodes / nodes)
        run = round(share * nodes), round(share * edges)
        return attention_bytes(*run, count, s.channels, s.layers, s.heads) + forward_bytes(
            nodes, edges, count, s.channels, s.heads
        )


class SegmentSteps(FullSteps):
    """Steps of graph segment training (GST thesis, algorithm 1).

    ``trained_segments`` at random have gradients. The others' embeddings come from the historical
    table; embeddings that are not there yet, or all if there is no table, are computed without
    gradients, as algorithm 1 is written. With segment dropout p each of the others is left out with
    probability p, and the trained ones count (1 - p) + p * segments / trained, so that the
    expected sum is that of all segments alike (staleness-aware dropout, Cao et al. 2023, section
    3.3).
    """

    def __init__(self, cache: Cache, names: list[str], settings: LayoutSegments):
        super().__init__(cache, names, settings)
        self.table: EmbeddingTable | None = None
        if settings.history:
            limit = round(settings.history_gigabytes * 1e9)
            sizes = {name: self._size(name) for name in names}
            self.table = EmbeddingTable(sizes, settings.channels, limit)

    def batch(
        self, graph: SegmentedGraph, configurations: np.ndarray, generator: np.random.Generator
    ) -> SegmentsBatch:
        """Some segments with gradients; of others, unless dropped, the remembered sums."""
        s, cells = self.settings, graph.cells(configurations)
        trained = generator.permutation(len(graph))[: s.trained_segments]
        undropped = generator.random(len(graph)) >= s.segment_dropout
        weight = 1 + s.segment_dropout * (len(graph) / len(trained) - 1)
        others = np.setdiff1d(np.flatnonzero(undropped), trained)
        remembered, missing = self._remembered(graph, configurations, others)

        def segments() -> Iterator[Segment]:
            for number in np.sort(trained):
                yield replace(graph.segment(int(number), cells), weight=weight)
            for number, places in missing:
                yield replace(graph.segment(number, cells, places), trained=False)

        computed = None if self.table is None else []
        return SegmentsBatch(
            len(configurations), graph.node_count, segments(), remembered, computed
        )

    def done(self, graph: SegmentedGraph, configurations: np.ndarray, batch: SegmentsBatch) -> None:
        """Remember what was computed."""
        if self.table is None:
            return
        self.table.step += 1
        for embedded in batch.computed:
            where = configurations[embedded.places.numpy()]
            self.table.write(graph.graph.name, where, embedded.number, embedded.embeddings.numpy())

    def state(self) -> dict[str, torch.Tensor]:
        """Return the historical table."""
        return {} if self.table is None else self.table.state()

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> bool:
        """Take the historical table back; return whether it is this one."""
        return not tensors if self.table is None else self.table.restore(dict(tensors))

    def _remembered(
        self, graph: SegmentedGraph, configurations: np.ndarray, others: np.ndarray
    ) -> tuple[torch.Tensor | None, list[tuple[int, np.ndarray]]]:
        """The sum of the other segments' embeddings in the table; segments and places it lacks."""
        if self.table is None:
            return None, [(int(number), np.arange(len(configurations))) for number in others]
        steps, embeddings = self.table.read(graph.graph.name, configurations)
        steps, embeddings = steps[:, others], embeddings[:, others]  # (b, o), (b, o, width)
        remembered = torch.from_numpy(np.where(steps[..., None] > 0, embeddings, 0).sum(axis=1))
        absent = [np.flatnonzero(steps[:, place] == 0) for place in range(len(others))]
        pairs = zip(others, absent, strict=True)
        return remembered, [(int(number), places) for number, places in pairs if len(places)]

    def _size(self, name: str) -> tuple[int, int]:
        row, s = self.cache.rows[name], self.settings
        splits = self.cache.graph(name).node_splits if s.cut == "splits" else ()
        segments = len(boundaries(row["nodes"], s.segment_nodes, splits)) - 1
        return row["configurations"], segments

    def _bytes(self, name: str) -> int:
        s, row = self.settings, self.cache.rows[name]
        nodes = min(s.segment_nodes, row["nodes"])
        edges = round(row["edges"] * nodes / row["nodes"])
        count = self._configurations(name)
        step = attention_bytes(nodes, edges, count, s.channels, s.layers, s.heads)
        return step * s.trained_segments
