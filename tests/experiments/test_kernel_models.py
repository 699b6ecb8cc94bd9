"""The GST thesis' models of tiles: against plain sums over every (configuration, node)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lib.experiments.inputs import segments_batch, segments_scores
from lib.experiments.kernel_inputs import SegmentedKernel
from lib.experiments.models.kernel_segments import TiledAttentionModel, TiledPoolingModel
from lib.models.tile.network import signed_log
from tests.kernels import cached_kernel

KINDS = [TiledAttentionModel, TiledPoolingModel]


def network(kind: type[nn.Module] = TiledAttentionModel) -> nn.Module:
    """With everything random, the standardization's statistics too."""
    torch.manual_seed(0)
    made = kind() if kind is TiledPoolingModel else kind(channels=8, layers=2, heads=2)
    for standardize in (made.inputs.standardize, made.inputs.tiles):
        standardize.fit(3 * torch.rand(20, len(standardize.mean)))
    return made.eval()


def slow_scores(made: TiledAttentionModel, kernel) -> list[float]:
    """A configuration at a time, a node at a time."""
    s, nodes, edges = made.inputs, len(kernel.node_opcode), kernel.edges.tolist()
    scores = []
    for configuration in torch.from_numpy(np.array(kernel.config_feat)):
        tile = (signed_log(configuration) - s.tiles.mean) * s.tiles.factor
        x = []
        for node in range(nodes):
            features = torch.from_numpy(kernel.node_feat[node])
            numbers = (signed_log(features[:134]) - s.standardize.mean) * s.standardize.factor
            digits = [[float(d == v) for v in range(6)] for d in features[134:].tolist()]
            row = torch.cat([numbers, torch.tensor(digits).flatten()])
            own = made.opcodes.weight[int(kernel.node_opcode[node])] + made.nodes.weight @ row
            x.append(own + made.configs.weight @ tile)
        for layer in made.layers:
            x = [x[i] + nn.functional.elu(_attended(layer, x, i, edges)) for i in range(nodes)]
        hidden = nn.functional.gelu(made.first(torch.stack(x).sum(0) / nodes**0.5))
        scores.append(made.out(hidden).item())
    return scores


def _attended(layer, x, node, edges):
    ends = {node} | {b for a, b in edges if a == node} | {a for a, b in edges if b == node}
    heads = []
    for head in range(layer.heads):

        def part(i, head=head):
            return (layer.projection.weight @ x[i]).view(layer.heads, -1)[head]

        logits = [layer.source[head] @ part(j) + layer.target[head] @ part(node) for j in ends]
        weights = torch.softmax(nn.functional.leaky_relu(torch.stack(logits), 0.2), dim=0)
        heads.append(sum(w * part(j) for w, j in zip(weights, ends, strict=True)))
    return torch.cat(heads) + layer.bias


def test_attention_equals_a_loop_over_configurations_and_nodes():
    kernel, made = cached_kernel(nodes=7, configurations=5), network()
    found = segments_scores(made, SegmentedKernel(kernel, 0), 100)
    with torch.no_grad():
        np.testing.assert_allclose(found, slow_scores(made, kernel), rtol=1e-4, atol=1e-5)
    assert np.ptp(found) > 1e-3


def test_pooling_is_linear_in_the_means():
    kernel, made = cached_kernel(nodes=7, configurations=5), network(TiledPoolingModel)
    graph = segments_batch(SegmentedKernel(kernel, 0), np.arange(5))
    (segment,) = graph.segments
    means = made.inputs.nodes(segment.graph).mean(0).expand(5, -1)
    expected = made.linear(torch.cat([means, made.inputs.configs(segment.graph)], dim=1))[:, 0]
    found = made(segments_batch(SegmentedKernel(kernel, 0), np.arange(5)))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_depends_on_neither_the_batch_nor_how_many_are_computed_at_once(kind):
    kernel, made = cached_kernel(configurations=40), network(kind)
    graph = SegmentedKernel(kernel, 3)
    whole = segments_scores(made, graph, 100)
    np.testing.assert_allclose(segments_scores(made, graph, 7), whole, rtol=1e-4, atol=1e-5)
    order = np.random.default_rng(0).permutation(40)[:9]
    alone = made(segments_batch(graph, order)).detach().numpy()
    np.testing.assert_allclose(alone, whole[order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_sum_over_segments_is_the_kernel_without_the_edges_between_them(kind, size):
    kernel, made = cached_kernel(configurations=6), network(kind)
    edges = kernel.edges
    inside = edges[edges[:, 0] // size == edges[:, 1] // size]
    whole = SegmentedKernel(replace(kernel, edges=inside), 0)
    cut = SegmentedKernel(kernel, size)
    assert len(cut) == -(-8 // size)
    found, expected = segments_scores(made, cut, 9), segments_scores(made, whole, 9)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("start", "stop"), [(0, 8), (2, 5), (7, 8)])
def test_gradients_of_a_run_leave_the_scores_as_they_are(start, stop):
    kernel, made = cached_kernel(configurations=6), network()
    graph, rows = SegmentedKernel(kernel, 0), np.arange(6)
    batch = segments_batch(graph, rows)
    (segment,) = batch.segments
    run = replace(segment, nodes=torch.from_numpy(graph.run(start, stop)))
    found = made(replace(batch, segments=[run]))
    np.testing.assert_allclose(
        found.detach(), segments_scores(made, graph, 9), rtol=1e-4, atol=1e-5
    )
    found.square().sum().backward()
    by_run = made.configs.weight.grad.clone()
    made.zero_grad()
    made(segments_batch(graph, rows)).square().sum().backward()
    same = torch.allclose(by_run, made.configs.weight.grad, rtol=1e-3, atol=1e-4)
    assert same is (stop - start == 8)
