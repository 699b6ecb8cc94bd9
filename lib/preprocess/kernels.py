"""From a raw tile file to cached kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.cache.kernel import CachedKernel
from lib.files.errors import DataError
from lib.tpugraphs.convert import safe_stems
from lib.tpugraphs.npz import TileKernel, read_tile
from lib.tpugraphs.padding import pad_with_minus_one
from lib.tpugraphs.protobuf import read_tile_pb


def read_graphs(
    path: Path, split: str, settings: Mapping[str, Any]
) -> Iterator[tuple[CachedKernel, dict[str, int]]]:
    """The kernels of a raw file: one of an npz, all that were measured of a tuning protobuf.

    Kernels of an npz are named after the file, those of a protobuf after their modules.

    Args:
        path, split: the file, and the split whose folder it is in.
        settings: nothing of them matters here.

    Raises:
        DataError: anything about the file that cannot be believed, or that it has no kernel.
    """
    for raw in _raw_kernels(path):
        yield compress(raw, split), source_sizes(raw)


def compress(raw: TileKernel, split: str) -> CachedKernel:
    """A kernel in the types of the cache, its node features padded with -1 (section 2.2.4)."""
    return CachedKernel(
        name=raw.name,
        split=split,
        node_feat=pad_with_minus_one(raw.node_feat, raw.node_opcode),
        node_opcode=raw.node_opcode,
        edges=raw.edge_index.astype(np.int32),
        config_feat=raw.config_feat,
        runtime=raw.config_runtime,
        normalizer=raw.config_runtime_normalizers,
    )


def source_sizes(raw: TileKernel) -> dict[str, int]:
    """Columns about a kernel as it was: nodes, edges, configurations, and bytes in memory."""
    arrays = (raw.node_feat, raw.edge_index, raw.config_feat)
    return {
        "source_nodes": len(raw.node_opcode),
        "source_edges": len(raw.edge_index),
        "source_configurations": len(raw.config_runtime),
        "source_bytes": sum(array.nbytes for array in arrays),
    }


def _raw_kernels(path: Path) -> list[TileKernel]:
    if path.suffix == ".npz":
        return [read_tile(path)]
    kernels = [kernel for kernel in read_tile_pb(path) if len(kernel.config_runtime)]
    if not kernels:
        raise DataError(path, "modules", "no measured kernel", "at least one")
    names = safe_stems([kernel.name for kernel in kernels])
    return [replace(kernel, name=name) for name, kernel in zip(names, kernels, strict=True)]
