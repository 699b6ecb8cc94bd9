"""How stage 1 reads the raw files of each kind of collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lib.preprocess import graphs, kernels

# (file, split, settings that the cache depends on) -> each of its graphs, and the columns of its
# row that say what it was before.
Reader = Callable[[Path, str, Mapping[str, Any]], Iterator[tuple[Any, dict[str, int]]]]
READERS: dict[str, Reader] = {"layout": graphs.read_graphs, "tile": kernels.read_graphs}
