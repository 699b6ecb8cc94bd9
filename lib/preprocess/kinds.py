"""How stage 1 reads the raw files of each kind of collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lib.preprocess import graphs, kernels, programs

# (file, split, settings that the cache depends on) -> each of its graphs, and the columns of its
# row that say what it was before.
Reader = Callable[[Path, str, Mapping[str, Any]], Iterator[tuple[Any, dict[str, int]]]]
READERS: dict[str, Reader] = {
    "layout": graphs.read_graphs,
    "tile": kernels.read_graphs,
    "programs": programs.read_graphs,
}
# Of kinds whose raw file is one of several: file -> all of them; ...
FILES: dict[str, Callable[[Path], list[Path]]] = {"programs": programs.source_files}
# ... and of kinds that say more than each graph does: file -> values of the cache's manifest.
ABOUT: dict[str, Callable[[Path], dict[str, Any]]] = {"programs": programs.about}
