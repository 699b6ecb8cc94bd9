"""The kernels for GPUs, by Triton's interpreter on the CPU."""

from __future__ import annotations

import copy
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.models.common import blocks_gpu
from lib.models.tgraph.inputs import graph_tensors
from lib.models.tgraph.network import TGraph
from tests.bench.case import Shape, program_graph

os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported
pytest.importorskip("triton", reason="Triton's interpreter runs the kernels")


def case(nodes: int, configurable: int, configurations: int, lonely: bool = False):
    """A batch, and a network with nothing at zero."""
    torch.manual_seed(1)
    graph = program_graph(Shape(nodes, configurable, configurations), configurations)
    if lonely:
        graph = replace(graph, edges=graph.edges[:1])
    tensors = graph_tensors(graph)
    network = TGraph(channels=64, temperature=0.1, score_gain=4.0)
    network.inputs.standardize.fit(tensors.features)
    for weight in (w for w in network.parameters() if w.ndim == 1):
        torch.nn.init.normal_(weight, std=0.1)
    return network, tensors.batch(np.arange(configurations))


def scores_and_gradients(network, x):
    scores = network.out(x).squeeze(-1)
    (scores.softmax(0) * torch.linspace(-1, 1, len(scores), dtype=x.dtype)).sum().backward()
    weights = [w for name, w in network.named_parameters() if name != "out.bias"]
    return scores.detach().double(), [w.grad.double() for w in weights]


@pytest.mark.parametrize(
    ("shape", "dtype", "most"),
    [
        ((4, 2, 18, True), torch.float32, 1e-4),  # 16 are a tile; nodes without neighbours
        # For bfloat16, which the interpreter does not multiply.
        ((4, 2, 17), torch.float16, 3e-2),
    ],
)
def test_equals_torch_alone(shape, dtype, most):
    network, batch = case(*shape)
    exact = copy.deepcopy(network).double()
    program = replace(batch.program, features=batch.program.features.double())
    double = replace(batch, program=program)
    expected = scores_and_gradients(exact, exact.states(exact.table(double), double).mean(0))
    x = blocks_gpu.pooled(network.blocks, network.table(batch), batch, dtype)
    assert x.dtype == torch.float32
    scores, gradients = scores_and_gradients(network, x)
    centred = expected[0] - expected[0].mean()
    assert (scores - expected[0]).norm() <= most * centred.norm()
    for found, wanted in zip(gradients, expected[1], strict=True):
        assert (found - wanted).norm() <= most * wanted.norm() + 1e-9


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-4), (torch.float16, 3e-2)])
def test_groups_of_what_is_shared_equal_batches_by_themselves(dtype, most, monkeypatch):
    network, batch = case(4, 2, 23)
    network.precision = dtype
    monkeypatch.setattr(network, "runs_kernels", lambda like: True)
    monkeypatch.setattr(network, "runs_native", lambda like: False)
    with torch.no_grad():
        shared = network.share(batch)
        for group in torch.randperm(23).split([17, 5, 1]):
            alone = network.scores(replace(batch, cells=batch.cells[:, group]))
            scores = network.score_group(shared, group)
            assert (scores - alone).abs().max() <= most * alone.abs().max()


def test_a_second_backward_pass_is_refused():
    network, batch = case(3, 2, 2)
    total = blocks_gpu.pooled(network.blocks, network.table(batch), batch, torch.float32).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second backward pass"):
        total.backward()


def test_a_cpu_does_not_take_them(monkeypatch):
    network, _ = case(3, 2, 2)
    assert blocks_gpu.supported(64, network.blocks[0])
    assert not network.runs_kernels(network.first.weight)
    without = TGraph(channels=64, channel_attention=False)
    assert not blocks_gpu.supported(64, without.blocks[0])
    monkeypatch.setenv("TGRAPH_NATIVE", "0")
    assert not blocks_gpu.available.__wrapped__()
