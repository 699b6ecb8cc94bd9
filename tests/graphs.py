"""Raw graphs as stage 1 caches them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lib.cache.graph import CachedGraph
from lib.runs.stage import stage_script
from lib.tpugraphs.npz import LayoutGraph


def compress(
    raw: LayoutGraph,
    split: str,
    hops: int | str,
    chunks: Iterable[np.ndarray] | None = None,
    path: Path | None = None,
) -> CachedGraph:
    """Return a graph by the steps of 01_preprocess.py, without effects."""
    chunks = [raw.node_config_feat] if chunks is None else chunks
    given = {"hops": hops, "hardware": ""}
    cached_graph = stage_script("preprocess").cached_graph
    return cached_graph(raw, split, chunks, path or Path(raw.name), given)
