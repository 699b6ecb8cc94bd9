"""Stage 1 of a kind of collections: raw files to graphs of the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.files.named import named
from lib.systems import SYSTEMS
from lib.tpugraphs.npz import LayoutGraph, TileKernel

# (file, split, settings that the cache depends on) -> each graph, and its sizes before
Graphs = Callable[[Path, str, Mapping[str, Any]], Iterator[tuple[Any, dict[str, int]]]]


@dataclass(frozen=True)
class Preprocess:
    """The parts of stage 1, which reads raw files.

    Attributes:
        graphs: (file, split, settings that the cache depends on) -> each of its graphs, and the
            columns of its row that say what it was before.
        files: file -> all the files that it stands for.
        metadata: file -> further fields of the cache's manifest.
    """

    graphs: Graphs
    files: Callable[[Path], list[Path]] = lambda file: [file]
    metadata: Callable[[Path], dict[str, Any]] = lambda file: {}


def preprocess_of(kind: str) -> Preprocess:
    """Return how the raw files of a kind of collections are read."""
    return named(SYSTEMS[kind].preprocess)


def source_sizes(raw: LayoutGraph | TileKernel, configuration_bytes: int) -> dict[str, int]:
    """Return columns that describe a raw graph: nodes, edges, configurations, bytes in memory."""
    configurations = len(raw.config_runtime)
    arrays = raw.node_feat.nbytes + raw.edge_index.nbytes
    return {
        "source_nodes": len(raw.node_opcode),
        "source_edges": len(raw.edge_index),
        "source_configurations": configurations,
        "source_bytes": arrays + configurations * configuration_bytes,
    }
