"""Reading a cache: the table in memory, the arrays mapped, a graph a few slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.artifacts import read_json
from lib.cache.format import MANIFEST, TABLE, form_of
from lib.cache.graph import CachedGraph
from lib.errors import DataError, UserError


class Cache:
    """A cache folder. Reading rows of a graph's configurations touches only those rows.

    Raises:
        UserError: if the folder is not there.
        DataError: if its arrays do not have the sizes that its manifest declares.
    """

    def __init__(self, folder: Path):
        if not (folder / MANIFEST).exists():
            raise UserError(f"{folder}: no cache there; run 01_preprocess.py first")
        self.folder = folder
        self.manifest: dict[str, Any] = read_json(folder / MANIFEST)
        self.table = _read_table(folder / TABLE)
        self.form = form_of(self.manifest.get("entries", ()))
        self.arrays = {name: self._mapped(name) for name in self.form.arrays}
        self.rows = {row["graph"]: row for row in self.table.iter_rows(named=True)}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of source files and preprocessing settings: equal caches, equal digits."""
        return self.manifest["fingerprint"]

    def names(self, *splits: str) -> list[str]:
        """Names of the graphs of the given source splits, sorted."""
        return sorted(self.table.filter(pl.col("split").is_in(splits))["graph"])

    def graph(self, name: str) -> CachedGraph:
        """One graph, its arrays read-only views of the mapped files."""
        row = self.rows[name]
        return self.form.graph.unpacked(row, {a: self._part(row, a) for a in self.form.arrays})

    def _part(self, row: dict[str, Any], name: str) -> np.ndarray:
        start = row[f"{name}_offset"]
        return self.arrays[name][start : start + row[self.form.arrays[name][2]]]

    def _mapped(self, name: str) -> np.ndarray:
        dtype, shape, _ = self.form.arrays[name]
        path = self.folder / f"{name}.bin"
        entries = self.manifest.get("entries", {}).get(name, 0)
        size = entries * int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if not path.exists() or path.stat().st_size != size:
            found = f"{path.stat().st_size} bytes" if path.exists() else "no file"
            raise DataError(path, name, found, f"{size} bytes; run 01_preprocess.py again")
        if not entries:
            return np.empty((0, *shape), dtype)
        return np.memmap(path, dtype, "r", shape=(entries, *shape))


def _read_table(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(path, "parquet", error, "a table; run 01_preprocess.py again") from None
