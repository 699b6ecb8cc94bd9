"""CUDA graphs, by a pretended recorder: it does a recorded list of operators again, in place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lib import native
from lib.models.common import replay
from lib.models.tgraph.inputs import graph_tensors
from lib.models.tgraph.network import TGraph
from tests.bench.case import Shape, program_graph

SIZE, TOTAL = 6, 40


class Recorded:
    """Operators with the tensors that they read and wrote when they were recorded."""

    def __init__(self):
        self.calls, self.replays = [], 0

    def replay(self):
        self.replays += 1
        for op, args, kwargs, outcome in self.calls:
            for old, new in zip(outcome, flat(op(*args, **kwargs)), strict=True):
                if isinstance(old, torch.Tensor):
                    old.detach().copy_(new)


class Recorder(TorchDispatchMode):
    """What ``torch.cuda.graph`` does: it fills a graph with what is launched."""

    def __init__(self, graph, pool):
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        outcome = op(*args, **(kwargs or {}))
        if not op.is_view:
            self.graph.calls.append((op, args, kwargs or {}, flat(outcome)))
        return outcome


def flat(outcome):
    return outcome if isinstance(outcome, tuple | list) else [outcome]


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that are recorded."""
    made = []

    def graph():
        made.append(Recorded())
        return made[-1]

    monkeypatch.setenv(native.GPU_GRAPHS, "1")
    monkeypatch.setattr(torch.cuda, "CUDAGraph", graph)
    monkeypatch.setattr(torch.cuda, "graph", Recorder)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    return made


@pytest.fixture
def case(monkeypatch):
    """A network of torch alone, and batches of one shape with different numbers of rows."""
    monkeypatch.setattr(native, "takes", lambda like: False)  # the recorder sees torch's operators
    torch.manual_seed(1)
    tensors = graph_tensors(program_graph(Shape(9, 4, SIZE), TOTAL))
    network = TGraph(channels=32, score_gain=4.0)
    rng = np.random.default_rng(0)
    batches = [tensors.batch(rng.choice(TOTAL, SIZE, replace=False)) for _ in range(6)]
    assert len({len(batch.nodes) for batch in batches}) > 1
    return network, batches


def gradients(network, scores):
    weight = torch.linspace(-1, 1, len(scores))
    return torch.autograd.grad((scores.softmax(0) * weight).sum(), list(network.parameters()))


def test_steps_equal_those_kernel_by_kernel_and_weights_are_read_anew(case, graphs):
    network, batches = case
    for batch in batches:
        plain = network.scores(batch)
        expected = gradients(network, plain)
        scores = network.replays(batch)
        assert torch.equal(scores, plain)
        for found, wanted in zip(gradients(network, scores), expected, strict=True):
            assert torch.equal(found, wanted)
        with torch.no_grad():
            for weight in network.parameters():
                weight += 0.01 * torch.randn_like(weight)
    assert [graph.replays for graph in graphs] == [5, 5]  # forward and back; the first was plain


def test_what_it_returned_stays_and_others_are_computed_while_it_waits(case, graphs):
    network, (one, two, *_) = case
    for _ in range(2):
        gradients(network, network.replays(one))
    waiting = network.replays(one)
    kept = waiting.detach().clone()
    replays = [graph.replays for graph in graphs]
    assert torch.equal(network.replays(two), network.scores(two))
    assert [graph.replays for graph in graphs] == replays
    found = gradients(network, waiting)
    again = network.replays(two)
    assert [graph.replays for graph in graphs] == [count + 1 for count in replays]
    assert torch.equal(waiting.detach(), kept)
    gradients(network, again)
    for one_found, wanted in zip(found, gradients(network, network.scores(one)), strict=True):
        assert torch.equal(one_found, wanted)


def test_modes_and_precisions_have_graphs_of_their_own(case, graphs):
    network, (batch, *_) = case
    with torch.inference_mode():
        for _ in range(3):
            assert torch.equal(network.replays(batch), network.scores(batch))
    assert [graph.replays for graph in graphs] == [2, 0]  # none goes back
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(network.replays(batch), network.scores(batch))
    network.precision = torch.bfloat16
    with torch.inference_mode():
        assert torch.equal(network.replays(batch), network.scores(batch))
    assert len(graphs) == 4


def test_large_batches_and_another_shape_are_computed(case, graphs, monkeypatch):
    network, batches = case
    monkeypatch.setattr(replay, "LARGEST", 9 * SIZE - 1)
    for batch in batches:
        network.replays(batch)
    assert not network.replays.recorded
    monkeypatch.undo()
    assert not graphs


def test_a_second_backward_pass_is_refused(case, graphs):
    network, (batch, *_) = case
    gradients(network, network.replays(batch))
    total = network.replays(batch).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second backward pass"):
        total.backward()


@pytest.mark.parametrize("rows", [1, 64, 65, 1000, 1025, 20_000])
def test_few_numbers_of_rows_are_recorded(rows):
    assert rows <= replay.padded(rows) <= max(rows + 63, rows * 9 / 8)
    assert replay.padded(replay.padded(rows)) == replay.padded(rows)


def test_padded_rows_change_nothing(case):
    network, (batch, *_) = case
    more = batch.with_rows(len(batch.nodes) + 5)
    assert len(network.table(more)) == len(network.table(batch)) + 5
    assert torch.equal(network.scores(more), network.scores(batch))
