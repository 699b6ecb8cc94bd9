"""Graphs, a cache of them, and settings for unit tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lib.cache.codec import LARGEST, smallest_type
from lib.cache.graph import CachedGraph
from lib.models.tgraph.settings import TGraphSettings
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.dataset import read_dataset

CPU_LAYOUTS = read_dataset(BUNDLED)
COLLECTION = "layout-xla-default"
TGRAPH = f"{COLLECTION}@tgraph"  # where its results go
TINY = {"channels": 16, "epochs": 4, "configurations": 8, "inference_configurations": 8}


def tiny_settings(**overrides: Any) -> TGraphSettings:
    """Settings of a network and a run of milliseconds."""
    return TGraphSettings(COLLECTION, **{**TINY, **overrides})


def cached_graph(
    seed: int = 0,
    *,
    name: str = "graph",
    split: str = "train",
    nodes: int = 12,
    configurable: int = 4,
    edges: int = 20,
    configurations: int = 10,
    triples: int = 5,
    labelled: bool = True,
) -> CachedGraph:
    """A random cached graph: edges may repeat, run both ways or be loops; nodes in any order."""
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 3, (nodes, 140)).astype(np.float32)
    features[:, 134:] = rng.integers(-1, 6, (nodes, 6))
    features[:, 7] = 5  # a constant feature
    runtime = rng.integers(1000, 2000, configurations) if labelled else np.zeros(configurations)
    return CachedGraph(
        name=name,
        split=split,
        node_feat=features,
        node_opcode=rng.integers(0, 121, nodes).astype(np.uint8),
        edges=rng.integers(0, nodes, (edges, 2)).astype(np.int32),
        node_splits=np.array([0, nodes // 3, nodes], np.int32),
        config_nodes=rng.permutation(nodes)[:configurable].astype(np.int32),
        dictionary=rng.integers(0, LARGEST, (triples, 3)).astype(np.int32),
        cells=rng.integers(0, triples, (configurations, configurable)).astype(
            smallest_type(triples)
        ),
        runtime=runtime.astype(np.int64),
        original=rng.permutation(
            np.concatenate([np.arange(configurations), rng.integers(0, configurations, 3)])
        ).astype(np.int32),
        repeats=rng.integers(1000, 2000, (2, 2)),
    )


def cache_of(
    folder: Path, entries: Iterable[Any], kind: str = "layout", fingerprint: str = "0"
) -> Any:
    """Return a cache in a folder, of graphs or kernels as stage 1 leaves them."""
    from lib.cache.reader import Cache  # late: TVM's environment has no polars
    from lib.cache.writer import CacheWriter

    folder.mkdir(parents=True, exist_ok=True)
    with CacheWriter(folder, kind) as writer:
        for entry in entries:
            writer.add(entry, {})
        writer.finish({"fingerprint": fingerprint, "settings": {}})
    return Cache(folder)
