"""The compiled loops against torch alone, and what of a run must not depend on them."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import native
from lib.models.tgraph.inputs import graph_tensors
from lib.models.tgraph.network import TGraph
from tests.builders import cached_graph

pytestmark = pytest.mark.skipif(not native.available(), reason="no C++ compiler")


def random_network(**sizes) -> TGraph:
    torch.manual_seed(0)
    network = TGraph(**{"channels": 64, "layout_channels": 3, "opcode_channels": 5, **sizes})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network


def scores_and_gradients(network: TGraph, batch, native_loops: bool, seed: int = 0):
    network.uses_native = native_loops
    scores = network(batch)
    weights = torch.randn(len(scores), generator=torch.Generator().manual_seed(seed))
    weights = weights.to(scores.dtype)
    return scores.detach(), torch.autograd.grad(scores @ weights, list(network.parameters()))


@given(
    nodes=st.integers(2, 90),
    share=st.floats(0.05, 1),
    edges=st.integers(0, 300),
    configurations=st.integers(2, 40),
    triples=st.integers(2, 30),
    blocks=st.integers(1, 3),
    widths=st.sampled_from([(64, 8), (64, 2), (128, 8), (256, 8)]),
    without=st.sets(st.sampled_from(["channel_attention", "edges"])),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_equals_torch_alone(
    nodes, share, edges, configurations, triples, blocks, widths, without, seed
):
    graph = cached_graph(
        seed,
        nodes=nodes,
        configurable=max(1, int(share * nodes)),
        edges=edges,
        configurations=configurations,
        triples=triples,
    )
    parts = dict.fromkeys(without, False)
    network = random_network(channels=widths[0], squeeze=widths[1], blocks=blocks, **parts)
    network.inputs.standardize.fit(torch.from_numpy(graph.node_feat[:, :134]))
    batch = graph_tensors(graph).batch(np.arange(configurations))
    assert network.runs_native(network.first.weight)
    scores, gradients = scores_and_gradients(network, batch, True, seed)
    expected, expected_gradients = scores_and_gradients(network, batch, False, seed)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)
    exact = scores_and_gradients(
        copy.deepcopy(network).double(),
        replace(batch, program=replace(batch.program, features=batch.program.features.double())),
        False,
        seed,
    )[1]
    largest = max(gradient.norm() for gradient in exact)

    def errors(found) -> list[float]:
        pairs = zip(found, exact, strict=True)
        return [float((a - b).norm() / (b.norm() + 1e-3 * largest)) for a, b in pairs]

    # Few nodes make some gradients so small beside what they are sums of that torch alone is off.
    names = [name for name, _ in network.named_parameters()]
    for name, one, other in zip(names, errors(gradients), errors(expected_gradients), strict=True):
        assert one < 1e-4 + 4 * other, f"{name}: {one}, torch alone {other}"


def test_without_cross_attention_there_are_no_loops():
    network = random_network(cross_attention=False)
    assert not network.runs_native(network.first.weight)
    assert not network.shares()


def test_bfloat16_orders_configurations_as_float32_does():
    graph = cached_graph(1, nodes=60, configurable=20, edges=120, configurations=48)
    network = random_network(channels=256)
    batch = graph_tensors(graph).batch(np.arange(48))
    exact = network(batch).detach()
    network.precision = torch.bfloat16
    for loops in (True, False):
        network.uses_native = loops
        rounded = network(batch).detach()
        assert rounded.dtype == torch.float32
        assert torch.corrcoef(torch.stack([exact, rounded]))[0, 1] > 0.999
        assert (rounded - exact).abs().max() > 0  # it is another type


def test_widths_that_the_loops_are_not_made_for_run_on_torch():
    network = random_network(channels=48, squeeze=4)
    assert not network.runs_native(network.first.weight)
    batch = graph_tensors(cached_graph(2)).batch(np.arange(5))
    assert torch.isfinite(network(batch)).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_twice(threads):
    graph = cached_graph(3, nodes=70, configurable=30, edges=150, configurations=30)
    batch = graph_tensors(graph).batch(np.arange(30))
    network = random_network(channels=128)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        first = scores_and_gradients(network, batch, True)
        again = scores_and_gradients(network, batch, True)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(first[0], again[0])
    assert all(torch.equal(a, b) for a, b in zip(first[1], again[1], strict=True))


def test_memory_that_was_lent_is_not_lent_again():
    """Two results of the same sizes are held at once; neither may be written over."""
    graph = cached_graph(4, nodes=200, configurable=60, edges=400, configurations=60)
    batch = graph_tensors(graph).batch(np.arange(60))
    network = random_network(channels=256)
    one, other = network(batch), network(batch)
    (gradient_of_other,) = torch.autograd.grad(other.square().sum(), network.out.weight)
    first = torch.autograd.grad(one.square().sum(), list(network.parameters()))
    _, expected = (
        one.detach(),
        torch.autograd.grad(network(batch).square().sum(), list(network.parameters())),
    )
    assert all(torch.equal(a, b) for a, b in zip(first, expected, strict=True))
    assert torch.equal(gradient_of_other, first[-2])


def test_a_second_backward_pass_is_refused():
    batch = graph_tensors(cached_graph(5)).batch(np.arange(5))
    total = random_network()(batch).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second backward"):
        total.backward()
