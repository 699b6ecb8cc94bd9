"""From a raw tile file to cached kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lib.cache.kernel import CachedKernel
from lib.preprocess.reading import Reading
from lib.tpugraphs.npz import TileKernel
from lib.tpugraphs.tiles import read_kernels


def read_graphs(
    path: Path, split: str, settings: Mapping[str, Any]
) -> Iterator[tuple[CachedKernel, dict[str, int]]]:
    """The kernels of a raw file; raises as :func:`lib.tpugraphs.tiles.read_kernels`."""
    for raw in read_kernels(path):
        yield CachedKernel.of(raw, split), source_sizes(raw)


def source_sizes(raw: TileKernel) -> dict[str, int]:
    """Columns about a kernel as it was: nodes, edges, configurations, and bytes in memory."""
    arrays = (raw.node_feat, raw.edge_index, raw.config_feat)
    return {
        "source_nodes": len(raw.node_opcode),
        "source_edges": len(raw.edge_index),
        "source_configurations": len(raw.config_runtime),
        "source_bytes": sum(array.nbytes for array in arrays),
    }


READING = Reading(read_graphs)
