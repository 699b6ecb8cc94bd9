"""From a raw layout graph to a cached one: pruned, padded, de-duplicated, compressed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lib.cache.codec import deduplicate
from lib.cache.encoder import build_dictionary
from lib.cache.graph import CachedGraph
from lib.cache.prune import induced_edges, kept_nodes
from lib.files.errors import DataError
from lib.tpugraphs.npz import LayoutGraph
from lib.tpugraphs.padding import detect_padding, pad_with_minus_one

ROWS = 1 << 12  # configurations compared at a time


def compress(
    raw: LayoutGraph,
    split: str,
    hops: int | str,
    chunks: Iterable[np.ndarray] | None = None,
    path: Path | str | None = None,
) -> CachedGraph:
    """Prune, pad, de-duplicate and compress one graph (sections 2.2.1 to 2.2.4).

    Args:
        raw, split: the graph, and the split that it is in.
        hops: see :func:`lib.cache.prune.kept_nodes`.
        chunks: its configurations (r, k, 18), if they are not in ``raw``.
        path: its file, to name in an error instead of the graph.

    Raises:
        DataError: if the graph has no configurations, or one of them cannot be believed.
        AssertionError: if the configurations could not be recovered exactly (a defect).
    """
    check_measured(path or raw.name, raw)
    dictionary, cells = build_dictionary(
        path or raw.name,
        [raw.node_config_feat] if chunks is None else chunks,
        len(raw.config_runtime),
        len(raw.node_config_ids),
    )
    first, runtime, original = deduplicate(cells, raw.config_runtime)
    kept_cells = cells[first]
    _check_recovered(raw.name, cells, kept_cells, original)
    return CachedGraph(
        name=raw.name,
        split=split,
        **_pruned(raw, hops),  # type: ignore[arg-type]
        dictionary=dictionary,
        cells=kept_cells,
        runtime=runtime,
        original=original,
        repeats=_repeats(first, original, raw.config_runtime),
    )


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


def _pruned(raw: LayoutGraph, hops: int | str) -> dict[str, np.ndarray]:
    """The nodes that are kept and what is said of them, by field of a :class:`CachedGraph`."""
    count = len(raw.node_opcode)
    nodes = kept_nodes(count, raw.edge_index, raw.node_config_ids, hops)
    return {
        "node_feat": _padded(raw, nodes),
        "node_opcode": raw.node_opcode[nodes],
        "edges": induced_edges(count, raw.edge_index, nodes),
        "node_splits": np.unique(np.searchsorted(nodes, raw.node_splits)).astype(np.int32),
        "config_nodes": np.searchsorted(nodes, raw.node_config_ids).astype(np.int32),
    }


def _padded(raw: LayoutGraph, nodes: np.ndarray) -> np.ndarray:
    """-1 padded features of the kept nodes, (n', 140); the whole graph tells what is there."""
    if detect_padding(raw.node_feat) == -1:
        return raw.node_feat[nodes]
    return pad_with_minus_one(raw.node_feat[nodes], raw.node_opcode[nodes])


def _check_recovered(name: str, cells: np.ndarray, kept: np.ndarray, original: np.ndarray) -> None:
    """Raise AssertionError unless ``kept[original]`` is ``cells``; no copy of them is made."""
    for start in range(0, len(cells), ROWS):
        rows = slice(start, start + ROWS)
        if not np.array_equal(kept[original[rows]], cells[rows]):
            raise AssertionError(f"{name}: configurations do not survive de-duplication")
