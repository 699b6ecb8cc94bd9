"""Names and columns of the cache, in one place for the writer and the reader.

``graphs.parquet`` has a row per graph; all else are flat arrays that it points into. An offset
counts entries along the flat array's first axis; ``cells`` is bytes, its offset a multiple of 8.
"""

from __future__ import annotations

import numpy as np

TABLE, MANIFEST = "graphs.parquet", "manifest.json"

# array: (dtype, shape of one entry, column that counts a graph's entries)
ARRAYS: dict[str, tuple[type, tuple[int, ...], str]] = {
    "node_feat": (np.float32, (140,), "nodes"),
    "node_opcode": (np.uint8, (), "nodes"),
    "edges": (np.int32, (2,), "edges"),
    "config_nodes": (np.int32, (), "config_nodes"),
    "dictionary": (np.int32, (3,), "dictionary"),
    "cells": (np.uint8, (), "cell_bytes"),
    "runtime": (np.int64, (), "configurations"),
    "original": (np.int32, (), "original_configurations"),
}
ALIGNMENT = 8  # of each graph's cells, so that a view as a wider type is aligned
