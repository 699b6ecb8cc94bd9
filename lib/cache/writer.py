"""Writing a cache: graphs one after another into flat arrays, the table last."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.cache.format import TABLE, format_of
from lib.cache.graph import CachedGraph
from lib.cache.manifest import write_manifest
from lib.files.parquet import write_parquet

COPY_BYTES = 1 << 20  # how much of an array is copied at a time


class CacheWriter:
    """Appends graphs to the flat arrays of a cache folder.

    The folder should be a temporary one (:func:`lib.files.artifacts.atomic_folder`): nothing can be
    read from it before :meth:`finish`.

    Args:
        folder: an empty folder.
        kind: of the graphs, one of :data:`lib.systems.SYSTEMS`.
        prefix: of the arrays' files, so that others fit into the folder.
    """

    def __init__(self, folder: Path, kind: str = "layout", prefix: str = ""):
        self.folder = folder
        self.arrays = format_of(kind).arrays
        self.files = {name: open(folder / f"{prefix}{name}.bin", "wb") for name in self.arrays}
        self.rows: list[dict[str, Any]] = []
        self.offsets = dict.fromkeys(self.arrays, 0)
        self._checksums = dict.fromkeys(self.arrays, 0)  # CRC-32 of what was appended

    def add(self, graph: CachedGraph, columns: Mapping[str, Any]) -> None:
        """Append ``graph``; ``columns`` are added to its row (sizes before, fingerprint)."""
        arrays, packed = graph.packed()
        row: dict[str, Any] = {"graph": graph.name, "split": graph.split, **packed}
        for name, (dtype, shape, count) in self.arrays.items():
            values: np.ndarray = np.ascontiguousarray(arrays[name], dtype)
            if values.shape[1:] != shape:
                raise ValueError(
                    f"{graph.name}: {name} has entries {values.shape[1:]}, not {shape}"
                )
            self._append(name, values.data)
            row[f"{name}_offset"], row[count] = self.offsets[name], len(values)
            self.offsets[name] += len(values)
        self.rows.append({**row, **columns})

    def extend(self, folder: Path, rows: Iterable[Mapping[str, Any]], prefix: str = "") -> None:
        """Append the graphs that another writer, now closed, put into ``folder``.

        Args:
            folder, prefix: the other writer's.
            rows: the other writer's rows.
        """
        for row in rows:
            moved = {
                f"{name}_offset": row[f"{name}_offset"] + start
                for name, start in self.offsets.items()
            }
            self.rows.append({**row, **moved})
        for name, (dtype, shape, _) in self.arrays.items():
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            with open(folder / f"{prefix}{name}.bin", "rb") as file:
                while piece := file.read(COPY_BYTES):
                    self._append(name, piece)
                self.offsets[name] += file.tell() // size

    @property
    def digits(self) -> dict[str, str]:
        """Eight hexadecimal digits for each array's content, which a fingerprint is made of."""
        return {name: f"{value:08x}" for name, value in self._checksums.items()}

    def close(self) -> None:
        """Close the arrays; nothing can be added any more."""
        with ExitStack() as every:  # also the others, if what is left of one cannot be written
            for file in self.files.values():
                every.callback(file.close)

    def __enter__(self) -> CacheWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Close the arrays and write the table and the manifest."""
        self.close()
        write_parquet(pl.DataFrame(self.rows), self.folder / TABLE)
        write_manifest(self.folder, {**manifest, "entries": self.offsets})

    def _append(self, name: str, piece: bytes | memoryview) -> None:
        self._checksums[name] = zlib.crc32(piece, self._checksums[name])
        self.files[name].write(piece)
