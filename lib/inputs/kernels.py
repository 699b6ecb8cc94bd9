"""From cached kernels to what the tile network reads, and all scores of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from lib.cache.kernel import CachedKernel
from lib.inputs.tensors import LARGEST_DIGIT, neighbours
from lib.models.inputs import NUMERIC
from lib.models.tile import KernelBatch, TileBatch, TileNetwork


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
    """Some configurations of several kernels, one kernel after the other.

    Args:
        kernels: the kernels.
        rows: for each, which of its configurations; only these are read.
    """
    chosen = [k.config_feat[r] for k, r in zip(kernels, rows, strict=True)]
    kernel = np.repeat(np.arange(len(kernels)), [len(r) for r in rows])
    return TileBatch(
        graph=kernel_batch(kernels),
        configurations=torch.from_numpy(np.concatenate(chosen)),
        kernel=torch.from_numpy(kernel),
    )


@torch.inference_mode()
def kernel_scores(network: TileNetwork, kernel: CachedKernel, size: int) -> np.ndarray:
    """Scores of every configuration of a kernel, (c,) float64; the graph is embedded once.

    Args:
        network: in evaluation mode.
        kernel: the kernel.
        size: configurations held at a time; a score does not depend on it, but for rounding.
    """
    device = network.out.weight.device
    whole = tile_batch([kernel], [np.arange(0)]).to(device)
    embedded = network.embed(whole.graph)
    scores = np.empty(len(kernel.config_feat), np.float64)
    for start in range(0, len(scores), size):
        chunk = np.array(kernel.config_feat[start : start + size])  # a copy: the map is read-only
        first = torch.zeros(len(chunk), dtype=torch.int64, device=device)
        found = network.score(embedded, torch.from_numpy(chunk).to(device), first)
        scores[start : start + size] = found.float().cpu().numpy()
    return scores
