"""Which graphs there is something to rank in, and of a raw file no more than decides it.

Folds are dealt of these. Make asks how many folds there can be before there is an environment, so
that only the standard library is needed here.
"""

from __future__ import annotations

import ast
import math
import zipfile
from collections.abc import Callable
from pathlib import Path

from lib.files.believing import Pieces, believing
from lib.files.errors import DataError
from lib.files.regular import open_regular
from lib.tpugraphs.dataset import npz_folder, of_programs, raw_files

LEARNING = ("train", "valid")  # splits that folds are dealt of
UNLABELLED = "no runtimes"
SAME = "all its configurations are the same"
EVEN = "all its configurations ran equally fast"
UNREADABLE = "it cannot be read"
MOST_BYTES, MOST_ROWS = 1 << 26, 1 << 20  # of an array that are looked at; others count as various
MOST_HEADER = 10_000  # bytes, as in numpy


def count_parts(root: Path, folder: Path, part: Callable[[str], str], enough: int) -> int:
    """How many parts the graphs of a collection make that can be ranked; no more than ``enough``.

    What a graph is a part of, itself or its family, ``part`` tells by its name.
    """
    place = npz_folder([root], folder)
    if place is None or of_programs(folder):
        return enough
    parts: set[str] = set()
    for path in (file for split in LEARNING for file in raw_files(place[1] / folder / split)):
        if path.suffix != ".npz" and folder.parts[0] == "tile":
            return enough  # it has any number of kernels
        part_name = part(path.name.removesuffix(path.suffix))
        if part_name not in parts and (path.suffix != ".npz" or not nothing_to_rank(path)):
            parts.add(part_name)
        if len(parts) == enough:
            break
    return len(parts)


def nothing_to_rank(path: Path) -> str:
    """Why nothing can be ranked in an npz, in words; empty if something can."""
    try:
        with open_regular(path) as file, believing(path, "file", "npz"):
            archive = zipfile.ZipFile(Pieces(file))
            runtimes = _Rows(archive, "config_runtime")
            if not runtimes.count or not any(runtimes.first):
                return UNLABELLED
            if not runtimes.differ():
                return EVEN
            layouts = "node_config_feat.npy"
            same = layouts in archive.namelist() and not _Rows(archive, layouts[:-4]).differ()
            return SAME if same else ""
    except (DataError, MemoryError):
        return UNREADABLE


class _Rows:
    """The rows of an array of an npz, whose bytes are compared."""

    def __init__(self, archive: zipfile.ZipFile, key: str):
        self.file = archive.open(f"{key}.npy")
        version = self.file.read(8)[6]
        length = int.from_bytes(self.file.read(2 if version == 1 else 4), "little")
        if length > MOST_HEADER:
            raise ValueError(f"a header of {length} bytes")
        header = ast.literal_eval(self.file.read(length).decode("latin-1"))
        self.count, *rest = header["shape"]
        self.bytes = math.prod(rest) * int(header["descr"][2:])
        self.various = bool(rest) and header["fortran_order"]  # a row is not in one piece there
        self.various |= self.bytes > MOST_BYTES
        self.first = b"" if self.various else self.file.read(self.bytes)

    def differ(self) -> bool:
        """Whether some row is not as the first one is."""
        if self.various:
            return True
        looked_at = min(self.count - 1, MOST_ROWS, MOST_BYTES // max(1, self.bytes))
        rows = (self.file.read(self.bytes) for _ in range(looked_at))
        return any(row != self.first for row in rows) or looked_at < self.count - 1
