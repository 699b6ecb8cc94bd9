"""The whole network against a dense one, and the symmetries it must have."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lib.cache.graph import CachedGraph
from lib.models.common.build import build_network
from lib.models.tgraph.inputs import graph_tensors
from lib.models.tgraph.network import TGraph
from tests.builders import cached_graph, tiny_settings
from tests.models.dense import dense_scores

GRAPHS = {
    "plain": {},
    "many edges": {"nodes": 20, "edges": 150},
    "no edges": {"edges": 0},
    "all configurable": {"nodes": 6, "configurable": 6},
    "one configurable": {"configurable": 1},
    "one configuration": {"configurations": 1},
    "one triple": {"triples": 1},
    "one node": {"nodes": 1, "configurable": 1, "edges": 2, "configurations": 5},
    "wide cells": {"triples": 400, "configurations": 120},
}


# What table 3 takes out, and of which parameters nothing is left then.
TAKEN_OUT = {
    "channel_attention": "channel_attention",
    "cross_attention": "cross_attention",
    "edges": "sage.message",
}
WITHOUT = [{name: False} for name in TAKEN_OUT] + [dict.fromkeys(TAKEN_OUT, False)]


def network_for(graph: CachedGraph, seed: int = 0, **sizes) -> TGraph:
    """A network in double precision with all parameters, biases and temperatures too, random."""
    torch.manual_seed(seed)
    network = TGraph(**{"channels": 16, "layout_channels": 3, "opcode_channels": 5, **sizes})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    network.inputs.standardize.fit(torch.from_numpy(graph.node_feat[:, :134]))
    return network.double()


def scores_of(network: TGraph, graph: CachedGraph, rows: np.ndarray | None = None) -> torch.Tensor:
    rows = np.arange(len(graph.cells)) if rows is None else rows
    return network(graph_tensors(graph).batch(rows))


SIZES = [(kind, {"blocks": blocks}) for kind in GRAPHS for blocks in (0, 1, 2, 3)]
SIZES += [
    (kind, taken) for kind in ("plain", "many edges", "one configuration") for taken in WITHOUT
]


@pytest.mark.parametrize(("kind", "sizes"), SIZES)
def test_scores_and_gradients_equal_those_of_the_dense_network(kind, sizes):
    graph = cached_graph(1, **GRAPHS[kind])
    network = network_for(graph, **sizes)
    rows = np.random.default_rng(2).permutation(len(graph.cells))[:9]
    fast, dense = scores_of(network, graph, rows), dense_scores(network, graph, rows)
    assert fast.shape == (len(rows),)
    torch.testing.assert_close(fast, dense, rtol=1e-9, atol=1e-9)
    if len(rows) > 1 and kind not in ("one triple", "one node"):
        assert fast.std() > 1e-6  # else the comparison would show nothing
    weights, names = torch.randn(len(rows), dtype=torch.float64), dict(network.named_parameters())
    found, expected = (torch.autograd.grad(s @ weights, names.values()) for s in (fast, dense))
    for name, one, other in zip(names, found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8, msg=lambda m, n=name: n + m)


@pytest.mark.parametrize("without", WITHOUT)
def test_settings_take_parts_out(without):
    network = build_network(tiny_settings(**without))
    names = [name for name, _ in network.named_parameters()]
    for part, word in TAKEN_OUT.items():
        assert any(word in name for name in names) is without.get(part, True)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_channels_are_left_out_in_training_alone(share):
    """At 0 nothing is drawn either: not one bit of a training changes."""
    graph = cached_graph(1)
    network, state = network_for(graph, dropout=share), torch.get_rng_state()
    table = network.table(batch := graph_tensors(graph).batch(np.arange(3)))
    assert torch.equal(torch.get_rng_state(), state) is (not share)
    network.eval()
    whole = network.table(batch)
    assert torch.equal(scores_of(network, graph), scores_of(network_for(graph).eval(), graph))
    assert torch.equal(table[table != 0], whole[table != 0] / (1 - share))
    assert (table == 0).double().mean() == pytest.approx(share, abs=0.1)


def test_the_papers_network():
    network = build_network(tiny_settings(channels=256))
    shapes = {name: tuple(tensor.shape) for name, tensor in network.named_parameters()}
    assert shapes["inputs.opcode.weight"] == (121, 16)
    assert shapes["inputs.digit.weight"] == (7, 4)
    assert shapes["first.weight"] == (256, 134 + 16 + 24 * 4)
    assert shapes["second.weight"] == (256, 256)
    assert len(network.blocks) == 2
    assert shapes["blocks.1.sage.message.weight"] == (128, 256)
    assert shapes["blocks.1.sage.update.weight"] == (128, 256 + 128)
    assert shapes["blocks.1.channel_attention.excitation.weight"] == (16, 128)
    assert shapes["blocks.1.channel_attention.squeeze.weight"] == (128, 16)
    assert shapes["out.weight"] == (1, 256)
    temperature = network.blocks[0].cross_attention.log_temperature.exp().item()
    assert temperature == pytest.approx(0.5)
