"""Names and columns of the cache, in one place for the writer and the reader.

``graphs.parquet`` has a row per graph; all else are flat arrays that it points into. An offset
counts entries along the flat array's first axis. Which arrays there are depends on the kind of
collection; the manifest lists them, and so tells the kind. It also has the checksum of every other
file, and one of itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.cache.graph import CachedGraph
from lib.cache.kernel import CachedKernel
from lib.programs.task import CachedTask

TABLE, MANIFEST = "graphs.parquet", "manifest.json"
FORMAT = 3  # of the cache: 1 had no checksums, 2 no repeats

# array: (dtype, shape of one entry, column that counts a graph's entries)
Arrays = dict[str, tuple[type, tuple[int, ...], str]]
NODES_AND_EDGES: Arrays = {
    "node_feat": (np.float32, (140,), "nodes"),
    "node_opcode": (np.uint8, (), "nodes"),
    "edges": (np.int32, (2,), "edges"),
}
# ``cells`` is bytes, its offset a multiple of 8.
LAYOUT: Arrays = {
    **NODES_AND_EDGES,
    "node_splits": (np.int32, (), "splits"),
    "config_nodes": (np.int32, (), "config_nodes"),
    "dictionary": (np.int32, (3,), "dictionary"),
    "cells": (np.uint8, (), "cell_bytes"),
    "runtime": (np.int64, (), "configurations"),
    "original": (np.int32, (), "original_configurations"),
    "repeats": (np.int64, (2,), "repeats"),
}
TILE: Arrays = {
    **NODES_AND_EDGES,
    "config_feat": (np.float32, (24,), "configurations"),
    "runtime": (np.int64, (), "configurations"),
    "normalizer": (np.int64, (), "configurations"),
}
PROGRAMS: Arrays = {
    "features": (np.float16, (164,), "leaves"),
    "position": (np.int32, (), "leaves"),
    "loops": (np.float16, (20,), "leaves"),
    "counts": (np.int32, (), "distinct"),
    "original": (np.int32, (), "programs"),
    "program": (np.int32, (), "programs"),
    "owner": (np.int32, (), "configurations"),
    "device": (np.uint8, (), "configurations"),
    "seconds": (np.float32, (), "configurations"),
    "again": (np.float32, (), "configurations"),
    "flags": (np.uint8, (), "configurations"),
}


@dataclass(frozen=True)
class Form:
    """How graphs of one kind are kept: their arrays, and the class that knows them.

    The class has ``packed()``, which returns the arrays of a graph and further columns of its
    row, and ``unpacked(row, arrays)``, the way back.
    """

    arrays: Arrays
    graph: Any


FORMS: dict[str, Form] = {
    "layout": Form(LAYOUT, CachedGraph),
    "tile": Form(TILE, CachedKernel),
    "programs": Form(PROGRAMS, CachedTask),
}


def form_of(entries: Any) -> Form:
    """The form whose arrays a manifest lists; the first one if it lists those of none."""
    fitting = (form for form in FORMS.values() if form.arrays.keys() == set(entries))
    return next(fitting, FORMS["layout"])
