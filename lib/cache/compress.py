"""From a raw layout graph to a cached one: pruned, padded, de-duplicated, compressed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.cache.codec import deduplicate
from lib.cache.encoder import build_dictionary
from lib.cache.graph import CachedGraph
from lib.cache.prune import pruned
from lib.files.errors import DataError
from lib.tpugraphs.npz import LayoutGraph
from lib.tpugraphs.padding import pad_with_minus_one

Resolve = Callable[[CachedGraph], dict[str, Any]]
ROWS = 1 << 12  # configurations compared at a time


def compress(
    raw: LayoutGraph,
    split: str,
    hops: int | str,
    chunks: Iterable[np.ndarray] | None = None,
    path: Path | str | None = None,
    resolve: Resolve | None = None,
) -> CachedGraph:
    """Prune, pad, de-duplicate and compress one graph (sections 2.2.1 to 2.2.4).

    Args:
        raw, split: the graph, and the split that it is in.
        hops: see :func:`lib.cache.prune.kept_nodes`.
        chunks: its configurations (r, k, 18), if they are not in ``raw``.
        path: its file, to name in an error instead of the graph.
        resolve: from the whole graph to what its configurations make a compiler do, which is
            worked out before nodes are left out.

    Raises:
        DataError: if the graph has no configurations, or one of them cannot be believed.
        AssertionError: if the configurations could not be recovered exactly (a defect).
    """
    where = path or raw.name
    check_measured(where, raw)
    chunks = [raw.node_config_feat] if chunks is None else chunks
    configurations = _configurations_of(raw, chunks, where)
    graph = CachedGraph(raw.name, split, **_nodes_of(raw), **configurations)
    return pruned(replace(graph, **resolve(graph)) if resolve else graph, hops)


def _configurations_of(
    raw: LayoutGraph, chunks: Iterable[np.ndarray], path: Path | str
) -> dict[str, np.ndarray]:
    """The distinct configurations and their runtimes, by field of a :class:`CachedGraph`."""
    sizes = len(raw.config_runtime), len(raw.node_config_ids)
    dictionary, cells = build_dictionary(path, chunks, *sizes)
    first, runtime, original = deduplicate(cells, raw.config_runtime)
    kept = cells[first]
    _check_recovered(raw.name, cells, kept, original)
    repeats = _repeats(first, original, raw.config_runtime)
    found = {"dictionary": dictionary, "cells": kept, "runtime": runtime}
    return found | {"original": original, "repeats": repeats}


def _repeats(first: np.ndarray, original: np.ndarray, runtimes: np.ndarray) -> np.ndarray:
    """The first two runtimes of each configuration that has more than one, (r, 2) int64."""
    again = np.ones(len(original), bool)
    again[first] = False
    again = np.flatnonzero(again).astype(np.int32)
    which, place = np.unique(original[again], return_index=True)
    pairs = np.stack([runtimes[first[which]], runtimes[again[place]]], axis=1)
    return pairs[(pairs > 0).all(axis=1)].astype(np.int64)


def check_measured(path: Path | str, graph: LayoutGraph) -> LayoutGraph:
    """The graph itself; :class:`DataError` if it has no configurations."""
    if not len(graph.config_runtime):
        raise DataError(path, "node_config_feat", "no configurations", "at least one")
    return graph


def _nodes_of(raw: LayoutGraph) -> dict[str, np.ndarray]:
    """The nodes and what is said of them, by field of a :class:`CachedGraph`."""
    return {
        "node_feat": pad_with_minus_one(raw.node_feat, raw.node_opcode),
        "node_opcode": raw.node_opcode,
        "edges": raw.edge_index.astype(np.int32),
        "node_splits": np.unique(raw.node_splits).astype(np.int32),
        "config_nodes": raw.node_config_ids.astype(np.int32),
    }


def _check_recovered(name: str, cells: np.ndarray, kept: np.ndarray, original: np.ndarray) -> None:
    """Raise AssertionError unless ``kept[original]`` is ``cells``; no copy of them is made."""
    for start in range(0, len(cells), ROWS):
        rows = slice(start, start + ROWS)
        if not np.array_equal(kept[original[rows]], cells[rows]):
            raise AssertionError(f"{name}: configurations do not survive de-duplication")
