"""True runtimes of a collection's graphs: one look-up for all sources.

A labelled graph holds its runtimes. Those of other graphs, such as the test split of our own
measurements, are in the data root's ``measurements.parquet``, apart from training. The graph's own
runtimes have one of two sources:

* :class:`CachedLabels`: a cache of stage 1. Equal configurations were merged, and have the smallest
  of their runtimes. Stage 4 evaluates with these.
* :class:`RawLabels`: the raw files, without a cache. Each configuration has its own runtime, as on
  Kaggle. The local leaderboard evaluates with these.

A tile kernel's runtimes are divided by their normalizers in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from lib.cache.reader import Cache
from lib.tpugraphs.labels import configurations_alike, read_runtimes
from lib.tpugraphs.npz import stem
from lib.tpugraphs.roots import SPLITS, DataRoot

ALIKE = "since their configurations are all the same, or ran equally fast"  # and have no order


@dataclass(frozen=True)
class CachedLabels:
    """The labels of a cache."""

    cache: Cache

    def runtimes(self, graph: str) -> np.ndarray | None:
        """Return the runtimes of a graph, in the order of its source; ``None`` if unlabelled."""
        if graph not in self.cache.rows:
            return None
        cached = self.cache.graph(graph)
        return cached.source_runtimes if cached.labelled else None

    def count(self, graph: str) -> int | None:
        """Return the number of configurations in its source; ``None`` for an unknown graph."""
        return self.cache.counts.get(graph)

    def alike(self, graph: str) -> bool:
        """Return whether all configurations of a known graph are equal; never true of a tile
        kernel, see :class:`lib.cache.kernel.CachedKernel`."""
        return graph in self.cache.rows and self.cache.rows[graph]["configurations"] < 2


@dataclass(frozen=True)
class RawLabels:
    """The labels of raw files.

    Attributes:
        root: the data root.
        folder: folder of the collection below ``npz``, such as ``layout/xla/default``.
    """

    root: DataRoot
    folder: Path

    def runtimes(self, graph: str) -> np.ndarray | None:
        """Return a graph's measured runtimes; :class:`DataError` if its file is damaged."""
        runtimes = self._read(graph)
        return runtimes if runtimes is not None and len(runtimes) and runtimes[0] > 0 else None

    def count(self, graph: str) -> int | None:
        """Return the number of its runtimes; :class:`DataError` if its file is damaged."""
        runtimes = self._read(graph)
        return None if runtimes is None else len(runtimes)

    def alike(self, graph: str) -> bool:
        """Return whether its configurations are equal; :class:`DataError` if a file is damaged."""
        path = None if self._tiles else self._files.get(graph)
        return path is not None and configurations_alike(path)

    def _read(self, graph: str) -> np.ndarray | None:
        path = self._files.get(graph)
        return read_runtimes(path, self._tiles).get(graph) if path else None

    @property
    def _tiles(self) -> bool:
        return self.folder.parts[0] == "tile"

    @cached_property
    def _files(self) -> dict[str, Path]:
        """File of each graph: its own, but a protobuf may hold several kernels."""
        return {
            name: path
            for split in SPLITS
            for path in self.root.files(self.folder, split)
            for name in (
                [stem(path)] if path.suffix == ".npz" else read_runtimes(path, self._tiles)
            )
        }


@dataclass(frozen=True)
class Truth:
    """Known runtimes of one collection's graphs.

    Attributes:
        labels: runtimes that the graphs hold themselves, which come first.
        measurements: all others, see :meth:`lib.tpugraphs.roots.DataRoot.measurements`.
    """

    labels: CachedLabels | RawLabels
    measurements: pl.DataFrame | None = None

    def runtimes(self, graph: str) -> np.ndarray | None:
        """Return positive (c,) runtimes in the order of the source; ``None`` if they are unknown.

        Measurements count only if they have as many configurations as the source.
        """
        labelled = self.labels.runtimes(graph)
        if labelled is not None:
            return labelled
        measured = self._measured.get(graph)
        if measured is None or self.labels.count(graph) not in (None, len(measured)):
            return None
        return measured.to_numpy()

    def can_be_ranked(self, graph: str, runtimes: np.ndarray) -> bool:
        """Return whether a graph with these :meth:`runtimes` has an order to predict.

        It has none if all of its configurations ran equally fast, or are equal, so that their
        runtimes differ by noise. Training leaves such graphs out as well.
        """
        return bool(runtimes.min() < runtimes.max()) and not self.labels.alike(graph)

    @cached_property
    def _measured(self) -> dict[str, pl.Series]:
        return column_by_graph(self.measurements, "runtime")


def column_by_graph(table: pl.DataFrame | None, column: str) -> dict[str, pl.Series]:
    """Return a column of ``graph, config, ...`` in the order of configurations, by graph; empty
    without a table."""
    if table is None:
        return {}
    parts = table.sort("graph", "config").partition_by("graph", as_dict=True)
    return {graph: frame[column] for (graph,), frame in parts.items()}
