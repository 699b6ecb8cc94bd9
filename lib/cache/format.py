"""Names and columns of the cache, in one place for the writer and the reader.

``graphs.parquet`` has a row per graph; all else are flat arrays that it points into. An offset
counts entries along the flat array's first axis. Which arrays there are depends on the kind of
collection; the manifest lists them, and so shows the kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.cache.graph import CachedGraph
from lib.cache.kernel import CachedKernel
from lib.files.named import named
from lib.systems import SYSTEMS

TABLE, MANIFEST = "graphs.parquet", "manifest.json"
FORMAT = 4  # of the cache: 1 had no checksums, 2 no repeats, 3 no effects

# array: (dtype, shape of one entry, column that counts a graph's entries)
Arrays = dict[str, tuple[type, tuple[int, ...], str]]
NODES_AND_EDGES: Arrays = {
    "node_feat": (np.float32, (140,), "nodes"),
    "node_opcode": (np.uint8, (), "nodes"),
    "edges": (np.int32, (2,), "edges"),
}
# ``cells`` is bytes, its offset a multiple of 8.
LAYOUT_ARRAYS: Arrays = {
    **NODES_AND_EDGES,
    "node_splits": (np.int32, (), "splits"),
    "config_nodes": (np.int32, (), "config_nodes"),
    "dictionary": (np.int32, (3,), "dictionary"),
    "cells": (np.uint8, (), "cell_bytes"),
    "runtime": (np.int64, (), "configurations"),
    "original": (np.int32, (), "original_configurations"),
    "repeats": (np.int64, (2,), "repeats"),
    "effects": (np.int32, (3,), "effects"),
    "effect_sizes": (np.float32, (), "effects"),
    "effect_feat": (np.float16, (), "effect_features"),
    "happens": (np.int32, (2,), "happenings"),
}
TILE_ARRAYS: Arrays = {
    **NODES_AND_EDGES,
    "config_feat": (np.float32, (24,), "configurations"),
    "runtime": (np.int64, (), "configurations"),
    "normalizer": (np.int64, (), "configurations"),
}


@dataclass(frozen=True)
class CacheFormat:
    """The arrays that graphs of one kind are kept in, and the class that reads and writes them.

    The class has ``packed()``, which returns the arrays of a graph and further columns of its
    row, and ``unpacked(row, arrays)``, the way back.
    """

    arrays: Arrays
    graph: Any


LAYOUT, TILE = CacheFormat(LAYOUT_ARRAYS, CachedGraph), CacheFormat(TILE_ARRAYS, CachedKernel)


def format_of(kind: str) -> CacheFormat:
    """Return the format in which graphs of a kind of collections are kept."""
    return named(SYSTEMS[kind].cache)


def format_with(entries: Any) -> CacheFormat:
    """The form whose arrays a manifest lists; the first one if it lists those of none."""
    fitting = (form for form in map(format_of, SYSTEMS) if form.arrays.keys() == set(entries))
    return next(fitting, LAYOUT)
