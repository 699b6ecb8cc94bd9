"""From cached kernels to what the tile network reads, and all scores of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from lib.cache.graph import neighbours
from lib.cache.kernel import CachedKernel
from lib.models.common.chunks import device_of, scores_of
from lib.models.common.input import Input
from lib.models.common.rows import LARGEST_DIGIT, NUMERIC
from lib.models.tile.network import KernelBatch, TileBatch, TileNetwork


def kernel_batch(kernels: Sequence[CachedKernel]) -> KernelBatch:
    """The graphs of several kernels side by side, as one."""
    counts = np.array([len(kernel.node_opcode) for kernel in kernels])
    starts = np.concatenate([[0], np.cumsum(counts)])
    edges = [
        np.asarray(kernel.edges, np.int64) + start
        for kernel, start in zip(kernels, starts, strict=False)
    ]
    sources, pointers = neighbours(int(starts[-1]), np.concatenate(edges))
    features = np.concatenate([kernel.node_feat for kernel in kernels])  # (n, 140)
    digits = np.clip(features[:, NUMERIC:], -1, LARGEST_DIGIT).astype(np.int64) + 1
    opcode = np.concatenate([kernel.node_opcode for kernel in kernels]).astype(np.int64)
    return KernelBatch(
        features=torch.from_numpy(features[:, :NUMERIC].copy()),
        opcode=torch.from_numpy(opcode),
        layout=torch.from_numpy(digits),
        sources=torch.from_numpy(sources),
        pointers=torch.from_numpy(pointers),
        kernels=torch.from_numpy(starts),
    )


def tile_batch(kernels: Sequence[CachedKernel], rows: Sequence[np.ndarray]) -> TileBatch:
    """Return some configurations of several kernels, one kernel after the other."""
    features = [kernel.config_feat[some] for kernel, some in zip(kernels, rows, strict=True)]
    number = np.repeat(np.arange(len(kernels)), [len(some) for some in rows])
    return TileBatch(
        graph=kernel_batch(kernels),
        configurations=torch.from_numpy(np.concatenate(features)),
        kernel=torch.from_numpy(number),
    )


def kernel_scores(
    network: TileNetwork, kernel: CachedKernel, size: int, rows: np.ndarray
) -> np.ndarray:
    """Scores of a kernel's configurations, or of those at ``rows``, (r,) float64; the graph is
    embedded once. How many are held at a time changes no score, but for rounding."""
    device = device_of(network)
    with torch.inference_mode():
        embedded = network.embed(tile_batch([kernel], [np.arange(0)]).to(device).graph)

    def score(positions: np.ndarray) -> torch.Tensor:
        features = kernel.config_feat[positions]  # a copy: the map is read-only
        first = torch.zeros(len(positions), dtype=torch.int64, device=device)
        return network.score(embedded, torch.from_numpy(features).to(device), first)

    return scores_of(score, rows, size)


INPUT = Input(prepare=lambda kernel, settings: kernel, scores=kernel_scores)
