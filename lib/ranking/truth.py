"""True runtimes of a collection's graphs: one look-up, wherever they are kept.

They stand with the graph, if it is labelled; or else apart, in the data root's
``measurements.parquet``, where those of our own measurements' test split are kept from training.
With the graph means in one of two places, which differ in one thing:

* :class:`CachedLabels`: a cache of stage 1. Configurations that are equal have been made one, so
  that each has the smallest of their runtimes. Stage 4 judges by these.
* :class:`RawLabels`: the files themselves, for whoever has no cache. Each configuration has its
  own runtime, as Kaggle has it. The local leaderboard judges by these.

A tile kernel's runtimes are divided by their normalizers in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl

from lib.cache.reader import Cache
from lib.tpugraphs.labels import configurations_alike, count_configurations, read_runtimes
from lib.tpugraphs.npz import stem
from lib.tpugraphs.roots import SPLITS, DataRoot

ALIKE = "since their configurations are all the same, or ran equally fast"  # and have no order


class Labels(Protocol):
    """What graphs say of their runtimes themselves."""

    def runtimes(self, graph: str) -> np.ndarray | None:
        """Of a graph's configurations, in the order of its source; ``None`` if not labelled."""

    def count(self, graph: str) -> int | None:
        """How many configurations its source has; ``None`` of a graph that is not there."""

    def alike(self, graph: str) -> bool:
        """Whether all configurations of a graph that is there are one and the same; never of a
        tile kernel, see :class:`lib.cache.kernel.CachedKernel`."""


@dataclass(frozen=True)
class CachedLabels:
    """The labels of a cache."""

    cache: Cache

    def runtimes(self, graph: str) -> np.ndarray | None:
        if graph not in self.cache.rows:
            return None
        cached = self.cache.graph(graph)
        return cached.source_runtimes if cached.labelled else None

    def count(self, graph: str) -> int | None:
        return self.cache.counts.get(graph)

    def alike(self, graph: str) -> bool:
        return graph in self.cache.rows and self.cache.rows[graph]["configurations"] < 2


@dataclass(frozen=True)
class RawLabels:
    """The labels of raw files.

    Attributes:
        root: where they are.
        folder: the collection's below ``npz``, such as ``layout/xla/default``.
    """

    root: DataRoot
    folder: Path

    def runtimes(self, graph: str) -> np.ndarray | None:
        """A graph's measured runtimes; :class:`DataError` if its file cannot be believed."""
        path = self._files.get(graph)
        runtimes = read_runtimes(path).get(graph) if path else None
        return runtimes if runtimes is not None and len(runtimes) and runtimes[0] > 0 else None

    def count(self, graph: str) -> int | None:
        """How many runtimes it has; :class:`DataError` if its file cannot be believed."""
        path = self._files.get(graph)
        return count_configurations(path).get(graph) if path else None

    def alike(self, graph: str) -> bool:
        """Whether its configurations are alike; :class:`DataError` if a file cannot be believed."""
        path = self._files.get(graph) if self.folder.parts[0] == "layout" else None
        return path is not None and configurations_alike(path)

    @cached_property
    def _files(self) -> dict[str, Path]:
        files = [path for split in SPLITS for path in self.root.files(self.folder, split)]
        return {name: path for path in files for name in _names(path)}


@dataclass(frozen=True)
class Truth:
    """What is known of the runtimes of one collection's graphs.

    Attributes:
        labels: what the graphs say themselves, which comes first.
        measurements: what lies apart, see :meth:`lib.tpugraphs.roots.DataRoot.measurements`.
    """

    labels: Labels
    measurements: pl.DataFrame | None = None

    def runtimes(self, graph: str) -> np.ndarray | None:
        """(c,) in the order of the source, positive; ``None`` if nobody knows them.

        Those that lie apart count only if they are of as many configurations as the source has.
        """
        labelled = self.labels.runtimes(graph)
        if labelled is not None:
            return labelled
        apart = self._apart.get(graph)
        if apart is None or self.labels.count(graph) not in (None, len(apart)):
            return None
        return apart.to_numpy()

    def can_be_ranked(self, graph: str, runtimes: np.ndarray) -> bool:
        """Whether a graph of these :meth:`runtimes` has an order that could be found.

        It has none if all of its configurations ran equally fast, or are the same, so that their
        runtimes differ by noise. Training leaves such graphs out as well.
        """
        return bool(runtimes.min() < runtimes.max()) and not self.labels.alike(graph)

    @cached_property
    def _apart(self) -> dict[str, pl.Series]:
        return column_by_graph(self.measurements, "runtime")


def column_by_graph(table: pl.DataFrame | None, column: str) -> dict[str, pl.Series]:
    """A column of ``graph, config, ...`` in the order of configurations; empty without a table."""
    if table is None:
        return {}
    parts = table.sort("graph", "config").partition_by("graph", as_dict=True)
    return {graph: frame[column] for (graph,), frame in parts.items()}


def _names(path: Path) -> list[str]:
    """A file's graphs: its own name, but for a protobuf, which may hold several kernels."""
    return [stem(path)] if path.suffix == ".npz" else list(read_runtimes(path))
