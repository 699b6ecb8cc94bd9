"""Steps from a raw layout graph to a cached one; 01_preprocess.py has their order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.cache.codec import build_dictionary, deduplicate
from lib.cache.graph import CachedGraph
from lib.tpugraphs.npz import LayoutGraph
from lib.tpugraphs.padding import pad_with_minus_one

ROWS = 1 << 12  # configurations compared at a time


def encoded(
    raw: LayoutGraph, split: str, chunks: Iterable[np.ndarray], path: Path | str
) -> CachedGraph:
    """Return a raw graph whose configurations are cells, an index of a layout for each node."""
    sizes = len(raw.config_runtime), len(raw.node_config_ids)
    dictionary, cells = build_dictionary(path, chunks, *sizes)
    return CachedGraph(
        name=raw.name,
        split=split,
        node_feat=raw.node_feat,
        node_opcode=raw.node_opcode,
        edges=raw.edge_index.astype(np.int32),
        node_splits=np.unique(raw.node_splits).astype(np.int32),
        config_nodes=raw.node_config_ids.astype(np.int32),
        dictionary=dictionary,
        cells=cells,
        runtime=raw.config_runtime,
        original=np.arange(len(cells), dtype=np.int32),
    )


def deduplicated(graph: CachedGraph) -> CachedGraph:
    """Return a graph with each configuration once, with the smallest of its runtimes.

    The first two runtimes of each configuration that has more stay as ``repeats``.
    """
    cells, runtimes = graph.cells, graph.runtime
    first, runtime, original = deduplicate(cells, runtimes)
    kept = cells[first]
    _check_recovered(graph.name, cells, kept, original)
    again = np.ones(len(original), bool)
    again[first] = False
    again = np.flatnonzero(again).astype(np.int32)
    which, place = np.unique(original[again], return_index=True)
    pairs = np.stack([runtimes[first[which]], runtimes[again[place]]], axis=1)
    repeats = pairs[(pairs > 0).all(axis=1)].astype(np.int64)
    return replace(graph, cells=kept, runtime=runtime, original=original, repeats=repeats)


def padded(graph: CachedGraph) -> CachedGraph:
    """Return a graph whose node features are padded with -1."""
    return replace(graph, node_feat=pad_with_minus_one(graph.node_feat, graph.node_opcode))


def _check_recovered(name: str, cells: np.ndarray, kept: np.ndarray, original: np.ndarray) -> None:
    """Raise AssertionError unless ``kept[original]`` is ``cells``; no copy of them is made."""
    for start in range(0, len(cells), ROWS):
        rows = slice(start, start + ROWS)
        if not np.array_equal(kept[original[rows]], cells[rows]):
            raise AssertionError(f"{name}: configurations do not survive de-duplication")
