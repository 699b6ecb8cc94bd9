"""How stage 1 reads the raw files of each kind of collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lib.files.named import named

# (file, split, settings that the cache depends on) -> each of its graphs, and the columns of its
# row that say what it was before.
Reader = Callable[[Path, str, Mapping[str, Any]], Iterator[tuple[Any, dict[str, int]]]]
READERS: dict[str, str] = {
    "layout": "lib.preprocess.graphs:read_graphs",
    "tile": "lib.preprocess.kernels:read_graphs",
    "programs": "lib.programs.preprocess:read_graphs",
}
# Of kinds whose raw file is one of several: file -> all of them; ...
FILES: dict[str, str] = {"programs": "lib.programs.preprocess:source_files"}
# ... and of kinds that say more than each graph does: file -> values of the cache's manifest.
ABOUT: dict[str, str] = {"programs": "lib.programs.preprocess:about"}


def reader_of(kind: str) -> Reader:
    """What reads a raw file."""
    return named(READERS[kind])


def source_files(kind: str, file: Path) -> list[Path]:
    """All the files that one stands for."""
    return named(FILES[kind])(file) if kind in FILES else [file]


def about_files(kind: str, file: Path) -> dict[str, Any]:
    """What the cache's manifest says of raw files."""
    return named(ABOUT[kind])(file) if kind in ABOUT else {}
