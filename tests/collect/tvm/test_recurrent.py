"""Recurrent layers of ONNX files compute, step by step, what ONNX and PyTorch compute."""

import numpy as np
import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

import torch
from onnx import helper, numpy_helper
from onnx.backend.test.case import node
from torch import nn

from lib.collect.tvm.agreement import difference
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import named
from lib.collect.tvm.onnx_files import by_steps, results_of
from lib.collect.tvm.recurrent import KINDS, unrolled


@pytest.mark.filterwarnings("ignore")  # of ONNX's tests of other operators, which it makes as well
@pytest.mark.parametrize("kind", KINDS)
def test_onnx_own_tests(kind):
    cases = node.collect_testcases(kind)
    read = [case for case in cases if "batchwise" not in case.name]  # as ONNX Runtime cannot
    assert len(read) == len(cases) - 1 >= 5
    for case in read:
        inputs, expected = case.data_sets[0]
        names = (tensor.name for tensor in case.model.graph.input)
        feeds = dict(zip(names, inputs, strict=True))
        model = by_steps(case.model, feeds)
        assert kind not in {one.op_type for one in model.graph.node}
        computed = results_of(model, feeds)
        assert max(map(difference, computed, expected)) < 1e-5, case.name


class Tagger(nn.Module):
    """Two recurrent layers, and their last state."""

    def __init__(self, kind: type, **how):
        super().__init__()
        self.layers = kind(4, 6, 2, batch_first=True, **how)

    def forward(self, x):
        """Of (batch, 5, 4) numbers."""
        found, state = self.layers(x)
        return found, state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize(
    "network", [Tagger(nn.LSTM, bidirectional=True), Tagger(nn.GRU), Tagger(nn.RNN, bias=False)]
)
def test_exported_files(tmp_path, network):
    path, how = tmp_path / "n.onnx", {"dynamo": False, "opset_version": 14, "verbose": False}
    torch.onnx.export(network.eval(), (torch.zeros(2, 5, 4),), path, **how)
    found = imported(named(str(path), None))  # fails if they differ
    expected = network(torch.from_numpy(found.inputs[0]))
    for own, original in zip(found.expected, expected, strict=True):
        np.testing.assert_allclose(own, original.detach(), atol=1e-5)
    graph = graph_of(found)
    assert len(graph.tasks) < len(graph.calls) - 5  # steps are calls of the same tasks


@pytest.mark.parametrize(
    ("how", "lengths", "said"),
    [
        ({"clip": 1.0, "layout": 1}, None, "clip, layout of a"),
        ({}, np.array([2, 3]), "sequence_lens of a"),
    ],
)
def test_what_is_not_read_is_said(how, lengths, said):
    layer = helper.make_node("LSTM", ["x", "w", "r"], ["y"], "a", hidden_size=3, **how)
    with pytest.raises(ValueError, match=said):
        unrolled(layer, (3, 2, 4), lengths)


def test_functions_of_ones_own():
    kind, numbers = "RNN", np.random.default_rng(0).standard_normal((1, 3, 3)).astype(np.float32)
    layer = helper.make_node(kind, ["x", "w", "w"], ["y"], hidden_size=3, activations=["Relu"])
    x, y = (
        helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("x", [4, 1, 3]), ("y", [4, 1, 1, 3]))
    )
    graph = helper.make_graph([layer], "g", [x], [y], [numpy_helper.from_array(numbers, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    given = np.random.default_rng(1).standard_normal((4, 1, 3)).astype(np.float32)
    (computed,) = results_of(by_steps(model, {"x": given}), {"x": given})
    state = np.zeros((1, 3), np.float32)
    for step, found in zip(given, computed, strict=True):
        state = np.maximum(step @ numbers[0].T + state @ numbers[0].T, 0)
        np.testing.assert_allclose(found[0], state, rtol=1e-5)
