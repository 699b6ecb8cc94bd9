"""Scores of all configurations of a graph, batch by batch; validation and inference share it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from lib.inputs.tensors import GraphTensors

POOL_BYTES = 1 << 30  # of what groupings share; more configurations are grouped in several pools


@torch.inference_mode()
def score_in_batches(
    network: nn.Module, graph: GraphTensors, order: np.ndarray, size: int
) -> np.ndarray:
    """Scores of every configuration of a graph, grouped as ``order`` says.

    A score depends on the batch it is computed in, because configurations attend to each other.
    Batches have at most ``size`` configurations and differ by one at most, so that no
    configuration is judged among a few left-overs.

    Args:
        network: in evaluation mode.
        graph: the graph, c configurations.
        order: (c,) a permutation of the configurations; neighbours in it share a batch.
        size: largest batch.

    Returns:
        (c,) float64, in the order of the cache, not of ``order``.
    """
    device = next(network.parameters()).device
    scores = np.empty(len(order), np.float64)
    for rows in _even(order, size):
        scores[rows] = _read(network(graph.batch(rows).to(device)))
    return scores


def score_groupings(
    network: nn.Module, graph: GraphTensors, orders: np.ndarray, size: int
) -> np.ndarray:
    """:func:`score_in_batches` for several orders, at a fraction of the work of each by itself.

    What does not depend on which configurations share a batch is computed once (a network offers
    it as ``share`` and ``score_group``). It is kept in memory, so that only as many configurations
    as fit in ``POOL_BYTES`` are grouped among themselves: a graph of more is dealt to pools by the
    first order, and the others are followed within each pool.

    Args:
        network: in evaluation mode.
        graph: the graph, c configurations.
        orders: (p, c) permutations of the configurations.
        size: largest batch.

    Returns:
        (p, c) float64, in the order of the cache.
    """
    scores = np.empty(orders.shape, np.float64)
    fits = _pool_size(network, graph, size)
    if len(orders) == 1 or fits is None:
        for index, order in enumerate(orders):
            scores[index] = score_in_batches(network, graph, order, size)
        return scores
    places = np.argsort(orders, axis=1)  # where each configuration is in each order
    for pool in _even(orders[0], fits):
        for index, rows, values in _pool_scores(network, graph, pool, places[:, pool], size):
            scores[index, rows] = values
    return scores


@torch.inference_mode()
def _pool_scores(
    network: nn.Module, graph: GraphTensors, pool: np.ndarray, places: np.ndarray, size: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    shared = network.share(graph.batch(pool))
    for index, place in enumerate(places):
        for group in _even(np.argsort(place), size):
            yield index, pool[group], _read(network.score_group(shared, torch.from_numpy(group)))


def _pool_size(network: nn.Module, graph: GraphTensors, size: int) -> int | None:
    """How many configurations a pool may have; None if the network shares nothing."""
    if not getattr(network, "shares", lambda: False)():
        return None
    return max(size, POOL_BYTES // network.bytes_shared(len(graph.opcode)))


def _even(order: np.ndarray, size: int) -> list[np.ndarray]:
    return np.array_split(order, -(-len(order) // size))


def _read(scores: torch.Tensor) -> np.ndarray:
    return scores.float().cpu().numpy()
