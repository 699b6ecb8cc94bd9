"""Graph attention against the same computed densely, node by node; softmax over runs of rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.cache.graph import neighbours
from lib.models.segments.gat import (
    GraphAttention,
    segment_softmax,
    with_itself,
)
from tests.models.dense import adjacency_matrix


def random_graph(seed: int, nodes: int, edges: int):
    """Edges (loops and repeated ones among them), and the neighbours as the network has them."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, nodes, (edges, 2))
    return found, tuple(map(torch.from_numpy, neighbours(nodes, found)))


def dense_attention(layer: GraphAttention, x: torch.Tensor, edges: np.ndarray) -> torch.Tensor:
    """Velickovic et al., equations 1 to 5: every pair of nodes, masked; one cell at a time."""
    nodes, configurations, channels = x.shape
    allowed = adjacency_matrix(nodes, edges) + np.eye(nodes) > 0
    width, found = channels // layer.heads, []
    for head in range(layer.heads):
        weight = layer.projection.weight[head * width : (head + 1) * width]
        outputs = []
        for b in range(configurations):
            h = x[:, b] @ weight.T  # (n, width)
            raw = (h @ layer.target[head])[:, None] + (h @ layer.source[head])[None, :]
            raw = torch.where(raw > 0, raw, 0.2 * raw)
            raw = raw.masked_fill(~torch.from_numpy(allowed), -torch.inf)
            outputs.append(torch.softmax(raw, dim=1) @ h)
        found.append(torch.stack(outputs, dim=1))
    return torch.cat(found, dim=-1) + layer.bias


@given(
    seed=st.integers(0, 999),
    nodes=st.integers(1, 9),
    edges=st.integers(0, 20),
    heads=st.sampled_from([1, 2, 4]),
)
def test_it_is_the_dense_one(seed, nodes, edges, heads):
    torch.manual_seed(seed)
    layer = GraphAttention(8, heads).double()
    torch.nn.init.normal_(layer.bias)
    pairs, graph = random_graph(seed, nodes, edges)
    x = torch.randn(nodes, 3, 8, dtype=torch.float64, requires_grad=True)
    found, expected = layer(x, *with_itself(*graph)), dense_attention(layer, x, pairs)
    torch.testing.assert_close(found, expected)
    inputs = [x, *layer.parameters()]
    weights = torch.randn_like(found)
    one, other = (torch.autograd.grad((y * weights).sum(), inputs) for y in (found, expected))
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b)


def test_a_node_comes_first_among_its_neighbours_and_once():
    sources, pointers = with_itself(torch.tensor([1, 0, 1]), torch.tensor([0, 1, 3, 3]))
    assert sources.tolist() == [0, 1, 1, 0, 2]  # node 1 had a loop
    assert pointers.tolist() == [0, 2, 4, 5]


def test_softmax_of_large_numbers_is_finite():
    values = torch.tensor([1000.0, 1001.0, -1000.0])
    found = segment_softmax(values, torch.tensor([0, 2, 3]))
    assert found.tolist() == pytest.approx([0.26894, 0.73106, 1.0], abs=1e-4)
