"""TGraph as the paper writes it: every (configuration, node) cell, a dense adjacency matrix.

Nothing here is shared with ``lib.models`` but the weights.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from lib.cache.codec import decode_layouts
from lib.cache.graph import CachedGraph


def dense_scores(network: nn.Module, graph: CachedGraph, rows: np.ndarray) -> Tensor:
    """Equation 7 for the configurations at ``rows``, with the weights of ``network``."""
    weights = dict(network.named_parameters()) | dict(network.named_buffers())
    x = _cells(graph, rows, weights)  # (b, n, width)
    x = _gelu(_linear(x, weights, "first"))
    x = _gelu(_linear(x, weights, "second"))
    adjacency = torch.tensor(adjacency_matrix(len(graph.node_opcode), graph.edges)).to(x)
    for number in range(len(network.blocks)):
        x = _block(x, adjacency, weights, f"blocks.{number}")
    return _linear(x.mean(dim=1), weights, "out")[:, 0]


def adjacency_matrix(count: int, edges: np.ndarray) -> np.ndarray:
    """1 where two nodes are joined by an edge in either direction, however often."""
    matrix = np.zeros((count, count))
    for user, operand in edges:
        matrix[user, operand] = matrix[operand, user] = 1
    return matrix


def _cells(graph: CachedGraph, rows: np.ndarray, weights: dict[str, Tensor]) -> Tensor:
    """The input vector of every (configuration, node) cell."""
    batch = []
    for row in rows:
        config = np.full((len(graph.node_opcode), 18), -1)
        for place, node in enumerate(graph.config_nodes):
            config[node] = decode_layouts(graph.dictionary[graph.cells[row, place]])
        batch.append(torch.stack([_cell(graph, i, config[i], weights) for i in range(len(config))]))
    return torch.stack(batch)


def _cell(graph: CachedGraph, node: int, config: np.ndarray, weights: dict[str, Tensor]) -> Tensor:
    features = graph.node_feat[node]
    mean, factor = weights["inputs.standardize.mean"], weights["inputs.standardize.factor"]
    numbers = (torch.tensor(features[:134]).to(mean) - mean) * factor
    opcode = weights["inputs.opcode.weight"][int(graph.node_opcode[node])]
    digits = [int(digit) + 1 for digit in (*features[134:], *config)]
    embedded = [weights["inputs.digit.weight"][digit] for digit in digits]
    return torch.cat([numbers, opcode, *embedded])


def _block(x: Tensor, adjacency: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    mean = x.mean(dim=1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=1, keepdim=True)
    normal = (x - mean) / torch.sqrt(variance + 1e-5)
    if f"{name}.sage.message.weight" in weights:  # what table 3 takes out has no weights
        gathered = adjacency @ _linear(normal, weights, f"{name}.sage.message")
        normal = torch.cat([normal, gathered], dim=-1)
    sage = _linear(normal, weights, f"{name}.sage.update")
    eta = sage / sage.square().sum(dim=-1, keepdim=True).sqrt()
    if f"{name}.channel_attention.squeeze.weight" in weights:
        gate = _linear(eta, weights, f"{name}.channel_attention.excitation").clamp(min=0)
        gate = _linear(gate, weights, f"{name}.channel_attention.squeeze")
        eta = eta / (1 + torch.exp(-gate))
    if f"{name}.cross_attention.log_temperature" not in weights:
        return x + _gelu(eta)
    temperature = torch.exp(weights[f"{name}.cross_attention.log_temperature"])
    powers = torch.exp(eta / temperature)
    crossed = eta * powers / powers.sum(dim=0, keepdim=True)
    return x + _gelu(torch.cat([eta, crossed], dim=-1))


def _linear(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2
