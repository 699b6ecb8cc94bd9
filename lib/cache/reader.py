"""Reading a cache: the table in memory, the arrays mapped, a graph a few slices."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from lib.cache.format import TABLE, format_with
from lib.cache.graph import CachedGraph
from lib.cache.manifest import advice, check_size, read_manifest
from lib.files.parquet import read_parquet
from lib.tpugraphs.dataset import LEARNING

COLUMNS = {"graph": "text", "split": "text", "nodes": "integer", "configurations": "integer"}


class Cache:
    """A cache folder. Reading rows of a graph's configurations touches only those rows.

    Every file's size is compared with what the manifest says.

    Raises:
        UserError: if the folder is not there.
        DataError: if a file is missing, damaged or of another version.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.form = format_with(self.manifest["entries"])
        self.table = read_table(folder)
        self.arrays: dict[str, np.ndarray] = {}
        for name, (dtype, entry, _) in self.form.arrays.items():
            path, shape = folder / f"{name}.bin", (self.manifest["entries"][name], *entry)
            check_size(path, math.prod(shape) * np.dtype(dtype).itemsize)
            if shape[0]:
                self.arrays[name] = np.memmap(path, dtype, "r", shape=shape)
            else:  # a file without bytes cannot be mapped
                self.arrays[name] = np.empty(shape, dtype)
        self.rows = {row["graph"]: row for row in self.table.iter_rows(named=True)}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of source files and preprocessing settings: equal caches, equal digits."""
        return self.manifest["fingerprint"]

    def names(self, *splits: str) -> list[str]:
        """Names of the graphs of the given source splits, sorted."""
        return sorted(self.table.filter(pl.col("split").is_in(splits))["graph"])

    @cached_property
    def left_out(self) -> dict[str, str]:
        """The graphs of train and valid that no fold has, and why nothing can be ranked in each."""
        whys = {name: self.graph(name).nothing_to_rank for name in self.names(*LEARNING)}
        return {name: why for name, why in whys.items() if why}

    @property
    def learning(self) -> list[str]:
        """Names of the graphs that folds are dealt of, sorted: train and valid without those."""
        return [name for name in self.names(*LEARNING) if name not in self.left_out]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return the number of configurations in each graph's source file."""
        return original_configurations(self.table)

    def graph(self, name: str) -> CachedGraph:
        """One graph, its arrays read-only views of the mapped files."""
        row = self.rows[name]
        arrays = {}
        for name, (_, _, count) in self.form.arrays.items():
            start = row[f"{name}_offset"]
            arrays[name] = self.arrays[name][start : start + row[count]]
        return self.form.graph.unpacked(row, arrays)


def read_table(folder: Path) -> pl.DataFrame:
    """A row a graph: its name and split, offsets and counts, and its sizes before stage 1.

    Raises:
        UserError: if there is no cache in ``folder``.
        DataError: if the table is missing, damaged or of another cache.
    """
    read_manifest(folder)
    return read_parquet(folder / TABLE, COLUMNS, advice(folder), all_columns=True)


def original_configurations(table: pl.DataFrame) -> dict[str, int]:
    """Return the number of configurations in each graph's source file, by graph.

    Kernels keep every configuration, so that their table has one number of them.
    """
    column = "original_configurations"
    count = column if column in table.columns else "configurations"
    return dict(table.select("graph", count).iter_rows())
