"""Networks in TVM compute what they compute in torch; skipped where there is no TVM."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

import onnx
import torch
from torch import nn
from torch.nn import functional

from lib.collect.tvm import importing, sources
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.library import SCRIPT, compiled, exported, write
from lib.collect.tvm.networks import Network, named
from lib.collect.tvm.search import by_original
from lib.files.errors import UserError


class Does(nn.Module):
    """A function of layers and inputs as a network."""

    def __init__(self, function, *layers: nn.Module):
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *inputs):
        return self.function(*self.layers, *inputs)


def trained(norm: nn.Module) -> nn.Module:
    """A normalization whose statistics and weights are not those that it is made with."""
    for tensor in (norm.running_mean, norm.running_var, norm.weight.data, norm.bias.data):
        tensor.uniform_(0.5, 2)
    return norm


def image(size: int = 8):
    return (torch.randn(1, 4, size, size),)


def tokens():
    return (torch.randn(2, 5, 8),)


class Keeps(nn.Module):
    """Keeps what it makes of a shape, as detectors do with the places of boxes."""

    places: torch.Tensor | None = None

    def forward(self, x):
        if self.places is None:
            self.places = torch.arange(x.shape[-1]) + x[:1, 0] * 0
        return x + self.places


def without_autocast(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", enabled=False):
        y = layer(x).softmax(-1)
    return layer(y)


LINEAR = nn.Linear(8, 8)
SEEN = torch.rand(5, 5).tril()
TRANSFORMER = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
NETWORKS = {
    "BatchNorm2d": lambda: (
        nn.Sequential(nn.Conv2d(4, 6, 3), trained(nn.BatchNorm2d(6)), nn.ReLU()),
        image(),
    ),
    "GroupNorm": lambda: (nn.Sequential(nn.Conv2d(4, 6, 3), nn.GroupNorm(2, 6)), image()),
    "InstanceNorm": lambda: (nn.InstanceNorm2d(4, affine=True), image()),
    "LayerNorm": lambda: (nn.Sequential(LINEAR, nn.LayerNorm(8)), tokens()),
    "LSTM": lambda: (Does(lambda layer, x: layer(x)[0], nn.LSTM(8, 6, batch_first=True)), tokens()),
    "attention": lambda: (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), tokens()),
    "a mask": lambda: (
        Does(lambda f, x: f(x, x, tgt_mask=SEEN.log()), TRANSFORMER),
        tokens(),
    ),
    "padding": lambda: (
        Does(lambda f, x, hidden: f.encoder(x, src_key_padding_mask=hidden), TRANSFORMER),
        (*tokens(), torch.arange(5) > torch.tensor([[2], [4]])),
    ),
    "argmax": lambda: (Does(lambda x: x.argmax(-1)), tokens()),
    "var": lambda: (Does(lambda x: x.var(-1)), tokens()),
    "frac": lambda: (Does(lambda x: (3 * x).frac()), tokens()),
    "grid_sample": lambda: (
        Does(lambda x, grid: functional.grid_sample(x, grid, align_corners=False)),
        (*image(6), 2 * torch.rand(1, 3, 3, 2) - 1),
    ),
    "the last": lambda: (Does(lambda x: x[:, -1] + x[:, -2]), tokens()),
    "a cache that is empty": lambda: (
        Does(lambda x: torch.cat([torch.tensor([]), x], -1)),
        tokens(),
    ),
    "sqrt": lambda: (Does(lambda x: x.sqrt()), tokens()),  # NaN of half the numbers
    "a part without autocast": lambda: (Does(without_autocast, LINEAR), tokens()),
    "what is kept of a first run": lambda: (Keeps(), tokens()),
    "inputs that change": lambda: (Does(lambda x: x.mul_(2)), tokens()),
    "axes that are not taken away": lambda: (
        Does(lambda f, x: f(x).flatten(2).mT.squeeze(1).squeeze((0, 2)), nn.Conv2d(4, 6, 3)),
        image(),
    ),
    "many parts": lambda: (
        Does(lambda x: torch.cat([k + part for k, part in enumerate(x.split(1))])),
        (torch.randn(129, 4),),
    ),
}


def test_a_network_that_tvm_computes_otherwise_is_refused(monkeypatch):
    """As the ELU is that SELU is made of: TVM's frontend forgets its scale."""
    monkeypatch.setattr(sources, "WHOLE", sources.WHOLE - {torch.ops.aten.selu.default})
    network = nn.Sequential(nn.ReLU(), nn.SELU()), tokens()
    with pytest.raises(UserError) as error:
        imported(Network("mine.py:network", lambda: network))
    said = "mine.py:network: TVM computes elu of layer 1 (SELU) otherwise than torch: off by"
    assert str(error.value).startswith(said)


def test_arguments_are_those_of_the_network():
    """Real weights and example inputs, for a search to compare schedules on."""
    network = nn.Sequential(nn.Linear(8, 6), nn.ReLU()), tokens()
    found = imported(Network("x", lambda: network))
    arguments = found.arguments(graph_of(found).functions)
    np.testing.assert_array_equal(np.squeeze(arguments[0]), network[1][0].numpy())
    assert {len(x.ravel()) for x in arguments} >= {network[0][0].weight.numel()}
    assert found.arguments(()) == ()


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ((nn.Identity(), tokens()), "x: it computes nothing, so that it has no tensor program"),
        ((Does(lambda x: x.sort()[0]), tokens()), "x: TVM has no tensor program for argsort"),
        ((Does(lambda x: x if x.sum() > 0 else -x), tokens()), "what it runs depends on values"),
        (
            (Does(lambda x: torch.fft.rfft(x.repeat(1, 1, 400)[..., :3001]).abs()), tokens()),
            "_fft_r2c: a Fourier transform of 3001 numbers, with a factor of 3001; ",
        ),
        ((Does(lambda x: x.nonzero()), tokens()), "it has no operator 'nonzero.default'"),
        ((Does(lambda x: (x + 1, None)), tokens()), "x: one of its results is None: return tens"),
        ((nn.Conv2d(2, 4, 3), (torch.randn(2, 6, 6),)), "x: TVM cannot read it: conv2d: In "),
        (
            (Does(lambda x: x.relu().bool().sort()[0].exp()), tokens()),
            "x: TVM cannot compile or run argsort: Unsupported input dtype: bool",
        ),
    ],
)
def test_what_does_not_work_is_one_line_with_operator_and_reason(network, said):
    with pytest.raises(UserError) as error:
        graph_of(imported(Network("x", lambda: network)))
    assert said in str(error.value) and len(str(error.value).splitlines()) == 1


class Mixed(nn.Module):
    """Computes in another type than its weights and inputs have."""

    def __init__(self, kind: torch.dtype):
        super().__init__()
        self.kind, self.weight = kind, nn.Parameter(torch.randn(8, 6))

    def forward(self, x):
        return (x.to(self.kind) @ self.weight.to(self.kind)).float()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (torch.float16, "x: astype has a tensor of float16, 2 x 5 x 8: programs are of float32"),
        (torch.int64, "x: matmul has a tensor of int64, 10 x 8: programs are of float32"),
    ],
)
def test_types_that_nothing_was_learned_of_are_refused(kind, said):
    with pytest.raises(UserError) as error:
        imported(Network("x", lambda: (Mixed(kind), tokens())))
    assert str(error.value) == f"{said}; add .float()"


def perceptron(path, batch, operator: str = "Relu", inputs=("h",), opset: int = 18):
    """An ONNX file of a product and another operator; its weights are inputs as well."""
    helper = onnx.helper
    generator = np.random.default_rng(0)
    weights = {name: generator.random(4, np.float32) for name in inputs if name != "h"}
    weights["w"] = generator.standard_normal((8, 4)).astype(np.float32)
    x, y, *others = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [batch, 8]), ("y", [batch, 4]), ("w", [8, 4]))
    )
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node(operator, inputs, ["y"])],
        *("perceptron", [x, *others], [y]),
        [onnx.numpy_helper.from_array(weight, name) for name, weight in weights.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=7), path)
    return str(path), weights["w"]


@pytest.mark.parametrize(
    ("operator", "inputs", "opset"),
    [
        ("Dropout", ["h"], 13),
        ("Sum", ["h", "a", "h"], 13),
        ("BatchNormalization", ["h", "a", "b", "c", "d"], 9),
    ],
)
def test_operators_of_onnx_that_tvm_reads_in_another_form(tmp_path, operator, inputs, opset):
    path, _ = perceptron(tmp_path / "a.onnx", 2, operator, inputs, opset)
    found = graph_of(imported(named(path, None)))
    assert found.names[0].startswith("matmul")


def test_a_convolution_and_dropout_may_be_the_end_of_an_onnx_file(tmp_path):
    """ONNX Runtime takes other dropouts out, and TVM knows no layout of this one."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = np.random.default_rng(0).standard_normal((16, 8, 3, 3)).astype(np.float32)
    nodes = helper.make_node("Conv", ["x", "w"], ["h"]), helper.make_node("Dropout", ["h"], ["y"])
    x, y = (
        [helper.make_tensor_value_info(name, kind, shape)]
        for name, shape in (("x", [1, 8, 9, 9]), ("y", [1, 16, 7, 7]))
    )
    graph = helper.make_graph(nodes, "a", x, y, [onnx.numpy_helper.from_array(weight, "w")])
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=7), tmp_path / "a.onnx")
    assert graph_of(imported(named(str(tmp_path / "a.onnx"), None))).names


def test_functions_of_an_onnx_file_are_taken_into_their_operators(tmp_path):
    path, _ = perceptron(tmp_path / "a.onnx", 2, "Twice")
    model, opset = onnx.load(path), onnx.helper.make_opsetid("", 18)
    model.graph.node[1].domain = "mine"
    model.opset_import.append(onnx.helper.make_opsetid("mine", 1))
    twice = onnx.helper.make_node("Add", ["a", "a"], ["b"])
    model.functions.append(
        onnx.helper.make_function("mine", "Twice", ["a"], ["b"], [twice], [opset])
    )
    onnx.save(model, path)
    assert graph_of(imported(named(path, None))).names == ("matmul_add1",)


def test_an_onnx_file_is_a_network(tmp_path):
    path, weight = perceptron(tmp_path / "a.onnx", "N")
    found = imported(named(path, 3))
    np.testing.assert_allclose(
        found.expected[0], np.maximum(found.values[0] @ weight, 0), rtol=1e-5
    )
    assert found.values[0].shape == (3, 8)
    assert graph_of(found).names == ("matmul_relu1",)
    with exported(tmp_path, compiled(found.module, found.values, "sse2")):
        write(tmp_path, found, {"threads": 1})
    line = [sys.executable, "-I", tmp_path / SCRIPT]  # from any folder
    ran = subprocess.run(line, capture_output=True, text=True, check=True)
    assert ran.stdout.count("0.") == 12  # of the one result, which is no tuple


def test_an_onnx_file_that_tvm_computes_otherwise_is_refused(tmp_path, monkeypatch):
    path, _ = perceptron(tmp_path / "a.onnx", 2)
    run = importing.run

    def wrong(*arguments) -> tuple:
        given, found, seen = run(*arguments)
        return given, (*found[:-1], found[-1] + 1), seen

    monkeypatch.setattr(importing, "run", wrong)
    with pytest.raises(UserError, match="TVM computes Relu otherwise than ONNX Runtime"):
        imported(named(path, None))


SIZES = """<ir_version: 10, opset_import: ["": 23]>
sizes (float[1, 4, n, 8] x) => (float[1, 4, m, 16] y, float[1, h, r, 8] z)
<float[4] scales = {1, 1, 2, 2}, int64[1] first = {0}, int64[1] last = {-1}> {
    y = Resize <mode = "nearest"> (x, , scales)
    shape = Shape(x)
    one = Gather(shape, first)
    eight = Gather(shape, last)
    whole = Concat <axis = 0> (one, one, last, eight)
    heads = Reshape(x, whole)
    z = Attention(heads, heads, heads)
}"""


def test_sizes_that_an_onnx_file_computes_and_what_onnx_writes_in_other_operators(tmp_path):
    path = tmp_path / "sizes.onnx"
    onnx.save(onnx.parser.parse_model(SIZES), path)
    found = imported(named(str(path), None, "n=6"))  # fails if it differs from ONNX Runtime
    assert [result.shape for result in found.expected] == [(1, 4, 12, 16), (1, 1, 24, 8)]
    (run,) = by_original(found).values()
    for own, original in zip(found.expected, run(), strict=True):
        np.testing.assert_array_equal(own, original)


FREE = """<ir_version: 8, opset_import: ["": 17]>
free (float[batch_size, length] x, int64[batch_size, 1] index) => (float[batch_size, 1] y) {
    y = GatherElements <axis = 1> (x, index)
}"""


def test_free_dimensions_of_an_onnx_file_are_given_by_name(tmp_path):
    path = tmp_path / "free.onnx"
    onnx.save(onnx.parser.parse_model(FREE), path)
    for shape, batch, size in (("length=7,batch_size=3", 1, (3, 7)), ("length=7", 2, (2, 7))):
        assert imported(named(str(path), batch, shape)).values[0].shape == size
    for shape, said in (
        ("", "no size for batch_size, length, expected SHAPE=batch_size=1,length=128"),
        ("width=7", "width=7 for batch_size, length, expected SHAPE=batch_size=1,length=128"),
        ("length=7,width=7", "length=7,width=7 for batch_size, length, expected SHAPE=batch_size"),
        ("length", "SHAPE=length: must be names and sizes, such as n=128,m=1"),
    ):
        with pytest.raises(UserError) as error:
            named(str(path), None, shape).build()
        assert said in str(error.value)


@pytest.mark.parametrize(
    ("sizes", "batch", "said"),
    [
        ((2, "Relu"), 4, "x: found a batch of 2, expected 4, or BATCH=2"),
        ((2, "NonZero"), None, "a.onnx: "),
        ((None, "Nothing"), None, "a.onnx: onnx cannot read it: No Op registered for Nothing"),
    ],
)
def test_an_onnx_file_that_cannot_be_read_is_told(tmp_path, sizes, batch, said):
    path, _ = perceptron(tmp_path / "a.onnx", *sizes)
    with pytest.raises(UserError) as error:
        graph_of(imported(named(path, batch)))
    assert said in str(error.value) and len(str(error.value).splitlines()) == 1
