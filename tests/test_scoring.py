"""Scores of all configurations, batch by batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.batches import graph_tensors
from lib.model import build_network
from lib.scoring import score_in_batches

from .builders import cached_graph, tiny_settings


class Rows:
    """Stands for a graph and its batch: remembers which rows were asked for."""

    def __init__(self):
        self.asked = []

    def batch(self, rows):
        self.asked.append(rows)
        return self

    def to(self, device):
        return self


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_batches_are_even_and_scores_in_the_caches_order(count, size, seed):
    graph = Rows()
    order = np.random.default_rng(seed).permutation(count)
    network = lambda batch: torch.from_numpy(batch.asked[-1] * 10.0)  # noqa: E731
    scores = score_in_batches(network, graph, order, size)
    assert np.array_equal(scores, np.arange(count) * 10.0)
    assert np.array_equal(np.concatenate(graph.asked), order)
    sizes = [len(rows) for rows in graph.asked]
    assert len(sizes) == -(-count // size)
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert scores.dtype == np.float64


def test_real_batches_of_a_real_network():
    torch.manual_seed(0)
    network = build_network(tiny_settings()).eval()
    graph = graph_tensors(cached_graph(configurations=11))
    order = np.random.default_rng(0).permutation(11)
    scores = score_in_batches(network, graph, order, 6)
    for rows in (order[:6], order[6:]):
        expected = network(graph.batch(rows)).detach().numpy()
        np.testing.assert_array_equal(scores[rows], expected.astype(np.float64))


def test_no_gradient_is_kept():
    seen = []
    network = lambda batch: seen.append(torch.is_grad_enabled()) or torch.zeros(4)  # noqa: E731
    score_in_batches(network, Rows(), np.arange(4), 4)
    assert seen == [False]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_one_batch_or_many(size):
    graph = Rows()
    score_in_batches(lambda b: torch.zeros(len(b.asked[-1])), graph, np.arange(7), size)
    assert len(graph.asked) == {1: 7, 3: 3, 100: 1}[size]
