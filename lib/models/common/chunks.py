"""Scores of a graph, some configurations at a time: the one loop, whatever a network reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


@torch.inference_mode()
def scores_of(
    score: Callable[[np.ndarray], Tensor], rows: np.ndarray, size: int, evenly: bool = False
) -> np.ndarray:
    """Return scores of configurations, (r,) float64, in their order.

    Args:
        score: a network in evaluation mode: positions of b configurations to their (b,) scores.
        rows: (r,) positions of those that are wanted.
        size: most configurations at a time.
        evenly: whether chunks differ in size by one at most; else the last may have fewer.
    """
    starts = [*range(size, len(rows), size)]
    chunks = np.array_split(rows, len(starts) + 1 if evenly else starts)
    parts = [score(chunk).float() for chunk in chunks]  # read after the last: no GPU is waited for
    return torch.cat(parts).cpu().numpy().astype(np.float64)


def batched_scores(
    network: nn.Module, graph: Any, size: int, rows: np.ndarray, evenly: bool = False
) -> np.ndarray:
    """Return scores of a graph's configurations, (r,) float64; as :func:`scores_of`.

    Args:
        network: in evaluation mode.
        graph: with a ``batch`` of some positions in its cells.
        size: configurations at a time.
        rows: (r,) positions of those that are wanted.
        evenly: for networks whose scores depend on which configurations share a batch.
    """
    device = device_of(network)
    return scores_of(lambda some: network(graph.batch(some).to(device)), rows, size, evenly)


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network."""
    return next(network.parameters()).device
