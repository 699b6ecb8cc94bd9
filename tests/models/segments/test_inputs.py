"""Cutting graphs, and that the sum over segments is the segmented graph computed whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.models.segments import network as networks
from lib.models.segments.batch import SegmentsBatch
from lib.models.segments.inputs import SegmentedGraph, boundaries, segments_batch, segments_scores
from lib.models.segments.network import AttentionModel, GraphSum, PoolingModel
from tests.builders import cached_graph


def network(kind: type[GraphSum] = AttentionModel) -> GraphSum:
    torch.manual_seed(0)
    made = kind() if kind is PoolingModel else kind(channels=8, layers=2, heads=2)
    return made.double().eval()


def as_double(batch: SegmentsBatch) -> SegmentsBatch:
    """The same with features of the type that tests compute in."""
    parts = []
    for part in batch.segments:
        program = part.graph.program
        program = replace(program, features=program.features.double())
        parts.append(replace(part, graph=replace(part.graph, program=program)))
    return replace(batch, segments=parts)


@pytest.fixture(autouse=True)
def doubles(monkeypatch):
    """One-hot digits as float64, too, so that sums agree to the last digits."""
    torch.set_default_dtype(torch.float64)
    monkeypatch.setattr(networks, "_one_hot", _one_hot)
    yield
    torch.set_default_dtype(torch.float32)


def _one_hot(digits):
    """Zero for 0, which stands for a digit that is not set."""
    return torch.nn.functional.one_hot(digits, 7)[..., 1:].flatten(1).double()


@given(count=st.integers(1, 300), size=st.integers(1, 80))
def test_boundaries(count, size):
    found = boundaries(count, size)
    assert (found[0], found[-1]) == (0, count)
    assert all(0 < b - a <= size for a, b in pairwise(found))
    assert len(found) - 1 == -(-count // size)  # algorithm 1, line 2


@given(seed=st.integers(0, 500), size=st.integers(1, 14))
@settings(max_examples=25, deadline=None)
def test_segments_sum_to_the_segmented_graph(seed, size):
    graph = cached_graph(seed, nodes=12, edges=25)
    segments = SegmentedGraph(graph, size)
    rows = np.array([3, 0, 7, 3])
    made = network()
    found = made(as_double(segments_batch(segments, rows)))

    inside = np.searchsorted(segments.starts, graph.edges, "right")
    kept = graph.edges[inside[:, 0] == inside[:, 1]]
    whole = SegmentedGraph(replace(graph, edges=kept), 0)
    torch.testing.assert_close(found, made(as_double(segments_batch(whole, rows))))


def test_fewer_are_scored_at_a_time_where_memory_is_short(monkeypatch):
    segments = SegmentedGraph(cached_graph(1), 0)
    made, sizes, rows = _plain(monkeypatch), [], np.arange(len(segments.graph.runtime))
    made.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].configurations))
    expected = segments_scores(made, segments, 100, rows)
    each = made.forward_bytes(*segments.largest())
    for free, most in ((2 * 3 * each, 3), (1, 1)):
        monkeypatch.setattr("lib.models.segments.inputs.free_memory", lambda free=free: free)
        sizes.clear()
        found = segments_scores(made, segments, 100, rows)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        assert max(sizes) == most


def _plain(monkeypatch) -> AttentionModel:
    """The network in the type that it has outside of these tests."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr(networks, "_one_hot", lambda digits: _one_hot(digits).float())
    return network().float()


def test_configurations_that_are_alike_in_a_segment_share_its_row():
    graph = cached_graph(2, nodes=12, configurable=4, configurations=10)
    segments = SegmentedGraph(graph, 4)
    cells = segments.cells(np.arange(10))
    for number in range(len(segments)):
        part = segments.segment(number, cells)
        own = cells[:, segments.configurable == number]
        expected = len(np.unique(own, axis=0)) if own.shape[1] else 1
        assert part.graph.cells.shape == (own.shape[1], expected)
        assert len(part.index) == 10


def test_known_embeddings_take_the_place_of_computed_ones():
    segments = SegmentedGraph(cached_graph(4), 4)
    made, rows = network(), np.arange(5)
    batch = replace(as_double(segments_batch(segments, rows)), computed=[])
    expected = made(batch)
    known = sum(one.embeddings for one in batch.computed[1:])
    some = replace(batch, segments=batch.segments[:1], stored=known, computed=None)
    torch.testing.assert_close(made(some), expected)


def test_gradients_flow_through_trained_parts_only():
    segments = SegmentedGraph(cached_graph(4), 4)
    made, rows = network(), np.arange(5)
    batch = as_double(segments_batch(segments, rows))
    parts = [replace(part, trained=part.number == 1) for part in batch.segments]
    made(replace(batch, segments=parts)).sum().backward()
    found = made.nodes.weight.grad.clone()

    embeddings = [made.embed(part)[part.index] for part in batch.segments]
    total = embeddings[1] + sum(e.detach() for i, e in enumerate(embeddings) if i != 1)
    made.zero_grad()
    made.score(total, segments.node_count).sum().backward()
    torch.testing.assert_close(found, made.nodes.weight.grad)
    assert found.abs().max() > 0


@given(seed=st.integers(0, 300), start=st.integers(0, 11), length=st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_a_run_changes_gradients_and_no_score(seed, start, length):
    """Partitioning: the same scores as the whole graph's; gradients as if the others were data."""
    graph = SegmentedGraph(cached_graph(seed), 0)
    stop = min(start + length, 12)
    made, rows = network(), np.arange(4)
    batch = as_double(segments_batch(graph, rows))
    nodes = torch.from_numpy(graph.run(start, stop))
    assert len(nodes) == stop - start
    expected = made(batch)
    run = replace(batch, segments=[replace(batch.segments[0], nodes=nodes)])
    found = made(run)
    torch.testing.assert_close(found, expected)
    if len(nodes) == 12:
        one, other = (torch.autograd.grad(s.sum(), made.nodes.weight)[0] for s in (found, expected))
        torch.testing.assert_close(one, other)
        return
    one = torch.autograd.grad(found.sum(), made.nodes.weight)[0]
    other = torch.autograd.grad(_stopped(made, batch, nodes).sum(), made.nodes.weight)[0]
    torch.testing.assert_close(one, other)


def _stopped(made: AttentionModel, batch: SegmentsBatch, nodes: torch.Tensor) -> torch.Tensor:
    """The scores with every vector outside of the run detached, layer by layer."""
    from lib.models.common.rows import expand_rows
    from lib.models.segments.gat import with_itself

    part = batch.segments[0]
    graph, inside = part.graph, torch.zeros(12, 1, 1, dtype=torch.bool)
    inside[nodes] = True
    edges = with_itself(graph.program.sources, graph.program.pointers)
    x = expand_rows(made.table(graph), graph)
    x = torch.where(inside, x, x.detach())
    for layer in made.layers:
        x = x + torch.nn.functional.elu(layer(x, *edges))
        x = torch.where(inside, x, x.detach())
    return made.score(x.sum(dim=0)[part.index], 12)


def test_the_pooling_model_is_a_linear_layer_over_means():
    graph = SegmentedGraph(cached_graph(6), 0)
    made, rows = network(PoolingModel), np.arange(6)
    batch = as_double(segments_batch(graph, rows))
    found = made(batch)
    features = batch.segments[0].graph
    for b in range(6):
        column = features.cells[:, batch.segments[0].index[b]]
        others = torch.arange(12 - len(column))
        picked = torch.cat([column, others])
        means = [made.inputs.nodes(features)[picked].mean(0)]
        means.append(made.inputs.configs(features)[picked].mean(0))
        expected = made.linear(torch.cat(means))
        torch.testing.assert_close(found[b : b + 1], expected)
