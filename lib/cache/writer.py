"""Writing a cache: graphs one after another into flat arrays, the table last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.artifacts import write_json
from lib.cache.codec import decode_layouts
from lib.cache.format import ALIGNMENT, ARRAYS, MANIFEST, TABLE
from lib.cache.graph import CachedGraph


class CacheWriter:
    """Appends graphs to the flat arrays of a cache folder.

    The folder should be a temporary one (:func:`lib.artifacts.atomic_folder`): nothing can be
    read from it before :meth:`finish`.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.files = {name: open(folder / f"{name}.bin", "wb") for name in ARRAYS}
        self.rows: list[dict[str, Any]] = []
        self.offsets = dict.fromkeys(ARRAYS, 0)

    def add(self, graph: CachedGraph, about: Mapping[str, Any]) -> None:
        """Append ``graph``; ``about`` adds columns to its row (sizes before, fingerprint)."""
        arrays = {name: np.asarray(getattr(graph, name)) for name in ARRAYS}
        arrays["cells"] = _aligned_bytes(graph.cells)
        row: dict[str, Any] = {"graph": graph.name, "split": graph.split}
        row["cell_type"] = graph.cells.dtype.name
        for name, (dtype, shape, count) in ARRAYS.items():
            values = np.ascontiguousarray(arrays[name], dtype)
            if values.shape[1:] != shape:
                raise ValueError(
                    f"{graph.name}: {name} has entries {values.shape[1:]}, not {shape}"
                )
            self.files[name].write(values.data)
            row[f"{name}_offset"], row[count] = self.offsets[name], len(values)
            self.offsets[name] += len(values)
        self.rows.append({**row, **about})

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Close the arrays and write the table and the manifest."""
        for file in self.files.values():
            file.close()
        pl.DataFrame(self.rows).write_parquet(self.folder / TABLE)
        write_json(self.folder / MANIFEST, {**manifest, "entries": self.offsets})


def check_lossless(graph: CachedGraph, features: np.ndarray) -> None:
    """Raise ``AssertionError`` unless the cells decode to the source's configurations exactly.

    Args:
        graph: the compressed graph.
        features: (o, k, 18) the source file's configurations, in its order.
    """
    chunk = max(1, (1 << 24) // max(1, graph.cells.shape[1] * 18))
    digits = decode_layouts(graph.dictionary)
    for start in range(0, len(features), chunk):
        rows = graph.original[start : start + chunk]
        if not np.array_equal(digits[graph.cells[rows]], features[start : start + chunk]):
            raise AssertionError(f"{graph.name}: configurations do not survive compression")


def _aligned_bytes(cells: np.ndarray) -> np.ndarray:
    data = np.ascontiguousarray(cells).reshape(-1).view(np.uint8)
    return np.pad(data, (0, -len(data) % ALIGNMENT))
