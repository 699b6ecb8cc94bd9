"""All scores of a graph, some configurations at a time: the one loop, whatever a network reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


@torch.inference_mode()
def chunk_scores(
    score: Callable[[np.ndarray], Tensor], chunks: Iterable[np.ndarray], count: int
) -> np.ndarray:
    """Scores of every configuration of a graph, (count,) float64.

    Args:
        score: a network in evaluation mode: positions of b configurations to their (b,) scores.
        chunks: positions, each of 0 to ``count`` - 1 once.
        count: configurations.
    """
    scores = np.empty(count, np.float64)
    for chunk in chunks:
        scores[chunk] = score(chunk).float().cpu().numpy()
    return scores


def scores_of_rows(
    score: Callable[[np.ndarray], Tensor],
    count: int,
    rows: np.ndarray | None,
    cut: Callable[[int], Iterable[np.ndarray]],
) -> np.ndarray:
    """:func:`chunk_scores` of some of a graph's configurations, (r,) float64, in their order.

    Args:
        score: as there, of positions in the cache.
        count: configurations of the graph.
        rows: (r,) positions of those that are wanted; ``None`` for all.
        cut: a number of configurations to chunks of their places.
    """
    rows = np.arange(count) if rows is None else rows
    return chunk_scores(lambda places: score(rows[places]), cut(len(rows)), len(rows))


def independent_scores(
    network: nn.Module, graph: Any, size: int, rows: np.ndarray | None = None
) -> np.ndarray:
    """Return scores of a network whose scores do not depend on which configurations share a batch.

    Args:
        network: in evaluation mode.
        graph: with a ``graph`` of the cache and a ``batch`` of some positions in its cells.
        size: configurations at a time.
        rows: (r,) positions of those that are wanted; ``None`` for all.

    Returns:
        (r,) float64.
    """
    device = device_of(network)
    return scores_of_rows(
        lambda configurations: network(graph.batch(configurations).to(device)),
        len(graph.graph.cells),
        rows,
        lambda count: in_order(count, size),
    )


def in_order(count: int, size: int) -> list[np.ndarray]:
    """Positions 0 to ``count`` - 1 in chunks of ``size``; the last may have fewer."""
    return [np.arange(start, min(start + size, count)) for start in range(0, count, size)]


def even(order: np.ndarray, size: int) -> list[np.ndarray]:
    """Positions in chunks of at most ``size`` that differ by one at most."""
    return np.array_split(order, -(-len(order) // size))


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network."""
    return next(network.parameters()).device
