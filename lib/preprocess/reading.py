"""How stage 1 reads the raw files of a kind of collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.files.named import named
from lib.systems import SYSTEMS


@dataclass(frozen=True)
class Reading:
    """From raw files to graphs of the cache.

    Attributes:
        graphs: (file, split, settings that the cache depends on) -> each of its graphs, and the
            columns of its row that say what it was before.
        files: file -> all the files that it stands for.
        about: file -> what the cache's manifest says beside that of each graph.
    """

    graphs: Callable[[Path, str, Mapping[str, Any]], Iterator[tuple[Any, dict[str, int]]]]
    files: Callable[[Path], list[Path]] = lambda file: [file]
    about: Callable[[Path], dict[str, Any]] = lambda file: {}


def reading_of(kind: str) -> Reading:
    """How the raw files of a kind of collections are read."""
    return named(SYSTEMS[kind].preprocess)
