"""Scores of all configurations, batch by batch."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lib.inputs import pruned as scoring
from lib.inputs.pruned import (
    score_groupings,
    score_in_batches,
    scoring_estimate,
    step_estimate,
)
from lib.inputs.tensors import GraphShape, graph_tensors
from lib.models import build_network
from lib.ranking.metrics import ranking_metrics
from tests.builders import cached_graph, tiny_settings
from tests.stages import REPOSITORY


class Rows:
    """Stands for a graph and its batch: remembers which rows were asked for."""

    def __init__(self):
        self.asked = []

    def batch(self, rows):
        self.asked.append(rows)
        return self

    def to(self, device):
        return self


class Network(nn.Module):
    """A network that is a function of the batch."""

    def __init__(self, function):
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.zeros(1))

    def forward(self, batch):
        return self.function(batch)


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_batches_are_even_and_scores_in_the_caches_order(count, size, seed):
    graph = Rows()
    order = np.random.default_rng(seed).permutation(count)
    network = Network(lambda batch: torch.from_numpy(batch.asked[-1] * 10.0))
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
    network = Network(lambda _: seen.append(torch.is_grad_enabled()) or torch.zeros(4))
    score_in_batches(network, Rows(), np.arange(4), 4)
    assert seen == [False]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_one_batch_or_many(size):
    graph = Rows()
    score_in_batches(Network(lambda b: torch.zeros(len(b.asked[-1]))), graph, np.arange(7), size)
    assert len(graph.asked) == {1: 7, 3: 3, 100: 1}[size]


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_groupings_equal_batches_by_themselves(blocks, precision):
    torch.manual_seed(0)
    network = build_network(tiny_settings(channels=64, blocks=blocks, precision=precision)).eval()
    graph = graph_tensors(cached_graph(configurations=23))
    orders = np.stack([np.random.default_rng(seed).permutation(23) for seed in range(4)])
    found = score_groupings(network, graph, orders, 6)
    alone = np.stack([score_in_batches(network, graph, order, 6) for order in orders])
    scale = alone.std()
    tolerance = 1e-4 if precision == "float32" else 0.05
    np.testing.assert_allclose(found, alone, rtol=0, atol=tolerance * scale)
    assert (found.std(axis=0) > 0).any()  # the groupings do differ


def test_what_groupings_share_is_computed_once(monkeypatch):
    network = build_network(tiny_settings(channels=64)).eval()
    if not network.shares():
        pytest.skip("no C++ compiler: nothing is shared")
    made = []
    monkeypatch.setattr(network, "share", lambda batch: made.append(batch) or original(batch))
    original = type(network).share.__get__(network)
    orders = np.stack([np.random.default_rng(seed).permutation(23) for seed in range(4)])
    score_groupings(network, graph_tensors(cached_graph(configurations=23)), orders, 6)
    assert len(made) == 1


def test_more_than_memory_holds_is_grouped_in_pools(monkeypatch):
    """With room for one batch only, each batch of the first order is a pool."""
    network = build_network(tiny_settings(channels=64, precision="float32")).eval()
    if not network.shares():
        pytest.skip("no C++ compiler: nothing is shared")
    monkeypatch.setattr(scoring, "POOL_BYTES", 1)
    graph = graph_tensors(cached_graph(configurations=23))
    orders = np.stack([np.random.default_rng(seed).permutation(23) for seed in range(3)])
    found = score_groupings(network, graph, orders, 6)
    first = score_in_batches(network, graph, orders[0], 6)
    for scores in found:
        np.testing.assert_allclose(scores, first, rtol=0, atol=1e-4 * first.std())


def test_a_hundred_thousand_configurations_take_no_more_memory(tmp_path):
    """Batches are streamed: ten times the configurations, the same peak but for the scores."""
    network = build_network(tiny_settings()).eval()
    peaks = []
    for count in (10_000, 100_000):
        graph = cached_graph(nodes=4, configurable=2, configurations=count, triples=6)
        cells = np.lib.format.open_memmap(
            tmp_path / f"{count}.npy", mode="w+", dtype=np.uint8, shape=graph.cells.shape
        )
        cells[:] = graph.cells
        tensors = graph_tensors(replace(graph, cells=cells))
        tracemalloc.start()
        scores = score_in_batches(network, tensors, np.arange(count), 1000)
        metrics = ranking_metrics(scores, graph.runtime)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert np.isfinite(list(metrics.values())).all()
    assert peaks[1] - peaks[0] < 100_000 * 8 * 30  # a few arrays of scores, no table of pairs


LARGE = GraphShape(nodes=9000, configurable=2000, layouts=90, configurations=100)


@pytest.mark.parametrize("estimate", [step_estimate, scoring_estimate])
def test_the_graph_that_takes_most_is_told(estimate):
    network = build_network(tiny_settings(channels=256))
    shapes = {
        "small": replace(LARGE, nodes=90, configurable=9),
        "large": LARGE,
        "few": replace(LARGE, layouts=1),
    }
    told = estimate(network, shapes, 128)
    assert "large (9,000 nodes, 100 configurations) takes about" in str(told)
    assert told.bytes > estimate(network, {"few": shapes["few"]}, 128).bytes  # a smaller table
    assert estimate(network, {"small": shapes["small"]}, 128) is None
    assert estimate(network, {}, 128) is None


MEASURED = """
import json, sys
from pathlib import Path
import numpy as np
from lib.inputs import pruned
from lib.inputs.tensors import graph_tensors
from lib.models import build_network
from lib.runs.stage import peak_memory
from tests.builders import cached_graph, tiny_settings
pruned.TOLD_BYTES, pruned.POOL_BYTES = 0, 1 << 26
native, training = map(int, sys.argv[1:])
graph = graph_tensors(cached_graph(nodes=2000, configurable=20, configurations=256, triples=4))
network = build_network(tiny_settings(channels=64)).train(bool(training))
network.uses_native = bool(native)
orders = np.stack([np.random.default_rng(k).permutation(256) for k in range(2)])
def work(size):
    if training:
        network(graph.batch(np.arange(size))).sum().backward()
    else:
        pruned.score_groupings(network, graph, orders[:, :], size)
network(graph.batch(np.arange(2))).sum().backward()
Path("/proc/self/clear_refs").write_text("5")
before = peak_memory()
work(128)
estimate = pruned.step_estimate if training else pruned.scoring_estimate
told = estimate(network, {"g": graph.shape}, 128)
print(json.dumps([peak_memory() - before, told.bytes]))
"""


@pytest.mark.parametrize("training", [0, 1])
@pytest.mark.parametrize("native", [0, 1])
def test_estimates_are_near_what_is_taken(native, training):
    line = [sys.executable, "-c", MEASURED, str(native), str(training)]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    taken, told = json.loads(done.stdout)
    assert 0.6 < taken / told < 1.3
