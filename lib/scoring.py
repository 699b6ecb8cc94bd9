"""Scores of all configurations of a graph, batch by batch; validation and inference share it."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from lib.batches import GraphTensors


@torch.inference_mode()
def score_in_batches(
    network: nn.Module, graph: GraphTensors, order: np.ndarray, size: int, device: str = "cpu"
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
        device: where the network is.

    Returns:
        (c,) float64, in the order of the cache, not of ``order``.
    """
    scores = np.empty(len(order), np.float64)
    for rows in np.array_split(order, -(-len(order) // size)):
        scores[rows] = network(graph.batch(rows).to(device)).float().cpu().numpy()
    return scores
