"""From one raw layout file to a cached graph, and the account of what that saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from joblib import Parallel, delayed

from lib.artifacts import atomic_folder, fingerprint_files, fingerprint_value
from lib.cache.codec import build_dictionary, deduplicate
from lib.cache.graph import CachedGraph
from lib.cache.writer import CacheWriter, check_lossless
from lib.errors import DataError, UserError
from lib.preprocess.prune import induced_edges, kept_nodes
from lib.tpugraphs.npz import LayoutGraph, read_layout
from lib.tpugraphs.padding import pad_with_minus_one
from lib.tpugraphs.protobuf import read_layout_pb
from lib.tpugraphs.roots import SPLITS, DataRoot

CELL_BYTES_RAW = 18 * 4  # float32 digits of one (configuration, node) cell in the source


def read_raw(path: Path) -> LayoutGraph:
    """Read an npz or a protobuf layout file; raises :class:`DataError`."""
    return read_layout(path) if path.suffix == ".npz" else read_layout_pb(path)


def compress(raw: LayoutGraph, split: str, hops: int) -> CachedGraph:
    """Prune, pad, de-duplicate and compress one graph (sections 2.2.1 to 2.2.4).

    Raises:
        DataError: if the graph has no configurations.
        AssertionError: if the configurations could not be recovered exactly (a defect).
    """
    if not len(raw.node_config_feat):
        raise DataError(raw.name, "node_config_feat", "no configurations", "at least one")
    count = len(raw.node_opcode)
    kept = kept_nodes(count, raw.edge_index, raw.node_config_ids, hops)
    dictionary, cells = build_dictionary(raw.node_config_feat)
    first, runtime, original = deduplicate(cells, raw.config_runtime)
    graph = CachedGraph(
        name=raw.name,
        split=split,
        node_feat=pad_with_minus_one(raw.node_feat, raw.node_opcode)[kept],
        node_opcode=raw.node_opcode[kept],
        edges=induced_edges(count, raw.edge_index, kept),
        config_nodes=np.searchsorted(kept, raw.node_config_ids).astype(np.int32),
        dictionary=dictionary,
        cells=cells[first],
        runtime=runtime,
        original=original,
    )
    check_lossless(graph, raw.node_config_feat)
    return graph


def _process(path: Path, split: str, hops: int) -> tuple[CachedGraph, dict[str, Any]]:
    raw = read_raw(path)
    before = {
        "source": path.name,
        "source_nodes": len(raw.node_opcode),
        "source_edges": len(raw.edge_index),
        "source_configurations": len(raw.node_config_feat),
        "source_bytes": raw.node_feat.nbytes
        + raw.edge_index.nbytes
        + raw.node_config_feat.size // 18 * CELL_BYTES_RAW,
        "fingerprint": fingerprint_files([path], path.parent),
    }
    return compress(raw, split, hops), before


def process_all(
    root: DataRoot, folder: Path, hops: int, jobs: int
) -> Iterator[tuple[CachedGraph, dict[str, Any]]]:
    """Process every raw file of a collection, in parallel, in the order of split and name.

    Args:
        root: the data root.
        folder: the collection's folder below ``npz``.
        hops: see :func:`lib.preprocess.prune.kept_nodes`.
        jobs: worker processes.

    Raises:
        UserError: if two splits have a graph of the same name.
        DataError: if a file cannot be believed.
    """
    files = [(path, split) for split in SPLITS for path in root.files(folder, split)]
    names = [path.stem for path, _ in files]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{root.npz / folder}: graph {twice} is in two splits; remove one")
    parallel = Parallel(n_jobs=jobs, return_as="generator", pre_dispatch="2*n_jobs")
    return parallel(delayed(_process)(path, split, hops) for path, split in files)


def count_files(root: DataRoot, folder: Path) -> int:
    """How many raw files a collection has in all its splits."""
    return sum(len(root.files(folder, split)) for split in SPLITS)


def write_cache(
    path: Path, graphs: Iterator[tuple[CachedGraph, dict[str, Any]]], settings: dict[str, Any]
) -> pl.DataFrame:
    """Write the cache folder, whole or not at all; returns its table.

    Args:
        path: the cache folder.
        graphs: each graph with its columns about the source.
        settings: what the cache depends on beside the files; part of its fingerprint.
    """
    with atomic_folder(path) as temporary:
        writer = CacheWriter(temporary)
        for graph, about in graphs:
            writer.add(graph, about)
        sources = {row["graph"]: [row["split"], row["fingerprint"]] for row in writer.rows}
        fingerprint = fingerprint_value({"sources": sources, "settings": settings})
        writer.finish({"fingerprint": fingerprint, "settings": settings})
    return pl.read_parquet(path / "graphs.parquet")
