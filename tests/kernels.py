"""Small fused kernels with a known rule behind their runtimes, for tests of tile collections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lib.cache.kernel import CachedKernel
from lib.models.tile.settings import TileSettings
from lib.tpugraphs.npz import TileKernel, write_tile
from tests.synthetic import ADD, DOT, PARAMETER, matrix_features, operands

COLLECTION = "tile-xla"
LARGEST_TILE = 64  # of each of two dimensions
CAPACITY = {
    ADD: 1024,
    DOT: 128,
}  # output elements of a tile beyond which a kernel of this root slows
TINY = {"channels": 16, "epochs": 2.5, "kernels": 3, "configurations": 32, "folds_total": 2}


def tiny_settings(**overrides: Any) -> TileSettings:
    """Settings of a network and a run of milliseconds."""
    return TileSettings(COLLECTION, **{**TINY, **overrides})


def tile_kernel(name: str, seed: int, nodes: int = 8, configurations: int = 40) -> TileKernel:
    """A random kernel of matrices, whose best tile is as large as its root's capacity allows.

    Work is done a tile at a time and each tile costs a constant, so that larger ones are better,
    until they exceed what the root's operation can hold (``CAPACITY``): then they are slow.

    Args:
        name: the kernel's name.
        seed: the same arguments give the same kernel.
        nodes: at least 1; the last one is the root.
        configurations: at least 1.
    """
    rng = np.random.default_rng(seed)
    opcode = rng.choice([ADD, PARAMETER], nodes).astype(np.uint8)
    opcode[-1] = root = int(rng.choice(list(CAPACITY)))
    tiles = rng.integers(1, LARGEST_TILE + 1, (configurations, 2))
    area = tiles.prod(axis=1)
    cost = 1 / area + (area > CAPACITY[root]) * area / LARGEST_TILE**2
    features = np.zeros((configurations, 24), np.float32)
    features[:, 8:10], features[:, 14], features[:, 15] = tiles, tiles.sum(axis=1), area
    return TileKernel(
        name=name,
        node_feat=matrix_features(rng.integers(64, 512, (nodes, 2))),
        node_opcode=opcode,
        edge_index=operands(rng, nodes),
        config_feat=features,
        config_runtime=(1e6 * cost).astype(np.int64) + 2,
        config_runtime_normalizers=np.full(configurations, 1000, np.int64),
    )


def cached_kernel(
    name: str = "kernel", seed: int = 0, split: str = "train", **sizes: int
) -> CachedKernel:
    """A kernel as the cache holds it."""
    return CachedKernel.of(tile_kernel(name, seed, **sizes), split)


def write_kernels(folder: Path, kernels: list[TileKernel], labelled: bool = True) -> None:
    """Write kernels as files of one split; without labels, runtimes and normalizers are zero."""
    for kernel in kernels:
        if not labelled:
            kernel.config_runtime[:] = kernel.config_runtime_normalizers[:] = 0
        write_tile(folder / f"{kernel.name}.npz", kernel)
