"""Training on whole graphs: GST and its baselines, a graph a step, read when it is needed.

Everything with gradients (GAT, Pooling), a run of nodes with gradients (Partitioning), or a few
segments with gradients and the others from the historical table (GST).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.files.terminal import readable
from lib.models.common.rows import NUMERIC
from lib.models.segments.batch import Segment, SegmentsBatch
from lib.models.segments.inputs import SegmentedGraph, boundaries, segmented, segments_batch
from lib.models.segments.network import GraphSum
from lib.models.segments.settings import LayoutPooling
from lib.runs.memory import free_memory
from lib.training.fold import Batch, Fold
from lib.training.split import LabelledGraph, sides_of

KEPT_NODES = 1 << 13  # of graphs that stay prepared between steps


FREE_SHARE = 0.5  # of the memory that is free


class EmbeddingTable:
    """The historical embedding table: what each segment's embedding was when last computed.

    It has an entry for each (graph, configuration, segment) of the training graphs, in memory. Its
    size is known and bounded before it is made. A checkpoint has it as well, so that a run that is
    killed ends with the same bits as one that was not.

    Args:
        sizes: (configurations, segments) of each graph.
        width: of an embedding.

    Raises:
        UserError: if it would have more than half of the memory that is free.
    """

    def __init__(self, sizes: dict[str, tuple[int, int]], width: int):
        self.sizes, self.starts, count = sizes, {}, 0
        for name, (configurations, segments) in sizes.items():
            self.starts[name] = count
            count += configurations * segments
        needed = count * (1 + 4 * width)
        if needed > FREE_SHARE * (free_memory() or 2 * needed):
            raise UserError(
                f"historical embeddings of {count:,} segments take {readable(needed)}, more than "
                f"half of what is free; use --no-history, or lower --channels"
            )
        self.known = np.zeros(count, bool)  # which were written
        self.embeddings = np.zeros((count, width), np.float32)

    def read(self, name: str, configurations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of some configurations of a graph.

        Returns:
            ``(known, embeddings)``: (b, s) booleans, which were written; and (b, s, width)
            float32.
        """
        segments = np.arange(self.sizes[name][1])
        places = self._places(name, configurations[:, None], segments)
        return self.known[places], self.embeddings[places]

    def write(
        self, name: str, configurations: np.ndarray, segment: int, embeddings: np.ndarray
    ) -> None:
        """Set the embeddings, (p, width), of one segment under some configurations."""
        places = self._places(name, configurations, segment)
        self.known[places], self.embeddings[places] = True, embeddings

    def state(self) -> dict[str, Tensor]:
        """Return the table for a checkpoint."""
        arrays = {"known": self.known, "embeddings": self.embeddings}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take back a :meth:`state` of this table."""
        self.known[:], self.embeddings[:] = state["known"], state["embeddings"]

    def _places(self, name: str, configurations: np.ndarray, segment: np.ndarray | int):
        return self.starts[name] + configurations * self.sizes[name][1] + segment


@dataclass(eq=False)
class SegmentsFold(Fold):
    """Names of the training and validation graphs of one fold, sorted; gradients are everywhere.

    Graphs are read from the cache when they are needed; a few of them stay prepared.
    """

    cache: Cache
    prepare = staticmethod(segmented)  # (cached graph, settings, whether its segments stay)

    def __post_init__(self) -> None:
        self.in_memory: dict[str, SegmentedGraph] = {}

    @classmethod
    def load(cls, cache: Cache, fold: int, settings: LayoutPooling) -> SegmentsFold:
        """Return the graphs of a fold; raises as :func:`lib.training.split.sides_of`.

        Raises:
            UserError: also if the historical table would be larger than its limit.
        """
        sides = ([graph.name for graph in side] for side in sides_of(cache, fold, settings))
        return cls(*sides, settings, cache)

    def standardize(self, network: GraphSum) -> None:
        """Fit the transform of features, with one graph in memory at a time."""

        def features() -> Iterator[torch.Tensor]:
            for name in self.train:
                yield torch.from_numpy(np.array(self.cache.graph(name).node_feat[:, :NUMERIC]))

        network.inputs.standardize.fit_chunks(features)

    def read(self, name: str) -> LabelledGraph:
        """Return a graph, cut; small ones are kept."""
        graph = self.in_memory.get(name)
        if graph is None:
            already = sum(kept.node_count for kept in self.in_memory.values())
            keep = already + self.cache.rows[name]["nodes"] <= KEPT_NODES
            graph = self.prepare(self.cache.graph(name), self.settings, keep)
            if keep:
                self.in_memory[name] = graph
        return LabelledGraph(name, graph, graph.graph.runtime)

    def batch(
        self,
        graphs: Sequence[LabelledGraph],
        rows: Sequence[np.ndarray],
        generator: np.random.Generator,
    ) -> Batch:
        """Return one graph, cut into segments, under some configurations."""
        (graph,), (some,) = graphs, rows
        batch = self.segments(graph.prepared, some, generator)
        return Batch(batch, [torch.from_numpy(graph.runtime[some])])

    def segments(
        self, graph: SegmentedGraph, configurations: np.ndarray, generator: np.random.Generator
    ) -> SegmentsBatch:
        """Return what a step computes of a graph; all that is random comes from ``generator``."""
        return segments_batch(graph, configurations)


class RunFold(SegmentsFold):
    """Steps with gradients in a random contiguous run of nodes (GST thesis, section 4)."""

    def segments(
        self, graph: SegmentedGraph, configurations: np.ndarray, generator: np.random.Generator
    ) -> SegmentsBatch:
        """Return the whole graph, with gradients in the nodes of one run."""
        length = min(self.settings.trained_nodes, graph.node_count)
        start = int(generator.integers(graph.node_count - length + 1))
        nodes = torch.from_numpy(graph.run(start, start + length))
        whole = replace(graph.segment(0, graph.cells(configurations)), nodes=nodes)
        return SegmentsBatch(len(configurations), graph.node_count, [whole])


class TableFold(SegmentsFold):
    """Steps of graph segment training (GST thesis, algorithm 1).

    ``trained_segments`` at random have gradients. The others' embeddings come from the historical
    table; embeddings that are not there yet, or all if there is no table, are computed without
    gradients, as algorithm 1 is written. With segment dropout p each of the others is left out with
    probability p, and the trained ones count (1 - p) + p * segments / trained, so that the
    expected sum is that of all segments alike (staleness-aware dropout, Cao et al. 2023, section
    3.3).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.table: EmbeddingTable | None = None
        if self.settings.history:
            rows, most = self.cache.rows, self.settings.segment_nodes
            cut = {name: boundaries(rows[name]["nodes"], most) for name in self.train}
            sizes = {name: (rows[name]["configurations"], len(cut[name]) - 1) for name in cut}
            self.table = EmbeddingTable(sizes, self.settings.channels)

    def segments(
        self, graph: SegmentedGraph, configurations: np.ndarray, generator: np.random.Generator
    ) -> SegmentsBatch:
        """Return some segments with gradients; of others, unless dropped, the remembered sums."""
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
        batch = SegmentsBatch(
            len(configurations), graph.node_count, segments(), remembered, computed
        )
        self.drawn = graph.graph.name, configurations, batch
        return batch

    def after_step(self) -> None:
        """Let the historical table have what was computed."""
        if self.table is None:
            return
        name, configurations, batch = self.drawn
        for embedded in batch.computed:
            where = configurations[embedded.places.numpy()]
            self.table.write(name, where, embedded.number, embedded.embeddings.numpy())

    def state(self) -> dict[str, torch.Tensor]:
        """Return the historical table."""
        return {} if self.table is None else self.table.state()

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take the historical table back."""
        if self.table is not None:
            self.table.restore(tensors)

    def _remembered(
        self, graph: SegmentedGraph, configurations: np.ndarray, others: np.ndarray
    ) -> tuple[torch.Tensor | None, list[tuple[int, np.ndarray]]]:
        """The sum of the other segments' embeddings in the table; segments and places it lacks."""
        if self.table is None:
            return None, [(int(number), np.arange(len(configurations))) for number in others]
        known, embeddings = self.table.read(graph.graph.name, configurations)
        remembered = torch.from_numpy(embeddings[:, others].sum(axis=1))  # (b, width)
        absent = [np.flatnonzero(~known[:, number]) for number in others]
        pairs = zip(others, absent, strict=True)
        return remembered, [(int(number), places) for number, places in pairs if len(places)]
