"""A network as it is made fast computes the same in fewer and cheaper programs, and runs alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

import torch
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from lib.collect.tvm import running
from lib.collect.tvm.agreement import difference, same
from lib.collect.tvm.compiler import Sampler, hash_of
from lib.collect.tvm.database import TuningDatabase
from lib.collect.tvm.deployment import packed, weights_of
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import arrays_of, fused, imported, run
from lib.collect.tvm.library import LIBRARY, SCRIPT, compiled, exported, runner, write
from lib.collect.tvm.networks import Network, named
from lib.collect.tvm.search import best_of
from lib.collect.tvm.sources import from_torch
from tests.collect.tvm.test_importing import NETWORKS, Does, image, tokens, trained

SLOW = r"T\.(exp|erf|tanh|sigmoid)\(|clip"  # functions of libraries, one number at a time


def normed(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, trained(nn.BatchNorm2d(6)), nn.ReLU())


def heads(count: int = 5) -> torch.Tensor:
    return torch.randn(2, 3, count, 8)


def attention(count: int = 5, **how):
    network = Does(lambda x: functional.scaled_dot_product_attention(x, x, x, **how))
    return network, (heads(count),)


MORE = {
    "a clip between convolutions": lambda: (
        nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU6(), nn.Conv2d(6, 4, 3), nn.Hardtanh(-2, 0.5)),
        image(),
    ),
    **{
        kind.__name__: lambda kind=kind: (nn.Sequential(nn.Linear(8, 8), kind()), tokens())
        for kind in (nn.SiLU, nn.GELU, nn.Sigmoid, nn.Tanh, nn.Softmax)
    },
    "a norm without a bias before": lambda: (normed(nn.Conv2d(4, 6, 3, bias=False)), image()),
    "a norm after a transposed convolution": lambda: (
        normed(nn.ConvTranspose2d(4, 6, 3)),
        image(),
    ),
    "leaky rectifiers between convolutions": lambda: (
        nn.Sequential(
            *(nn.Conv1d(4, 6, 3), nn.LeakyReLU(0.1), nn.Conv1d(6, 6, 3, 2, groups=2)),
            *(nn.LeakyReLU(1.5), nn.ConvTranspose1d(6, 4, 16, 8, 4)),
        ),
        (torch.randn(2, 4, 12),),
    ),
    "a convolution of volumes after one of images": lambda: (
        Does(lambda a, b, x: b(a(x).unsqueeze(1)), nn.Conv2d(4, 6, 3), nn.Conv3d(1, 2, 3)),
        image(),
    ),
    "convolutions of volumes": lambda: (
        nn.Sequential(
            nn.Conv3d(4, 8, (3, 2, 3), stride=(2, 1, 2), padding=(1, 0, 2), dilation=(2, 1, 1)),
            *(nn.ReLU(), nn.Conv3d(8, 6, 3, padding=1), nn.Conv3d(6, 4, (2, 1, 1), groups=2)),
        ),
        (torch.randn(2, 4, 9, 6, 7),),
    ),
    "a norm of what others read": lambda: (
        Does(lambda c, n, x: c(x) + n(c(x)), nn.Conv2d(4, 6, 3), trained(nn.BatchNorm2d(6))),
        image(),
    ),
    "attention without a mask": attention,
    "attention to keys that fill no whole vectors": lambda: attention(77),
    "causal attention": lambda: attention(is_causal=True, scale=0.3),
    "attention of which a row is masked": lambda: attention(
        attn_mask=torch.ones(5, 5, dtype=torch.bool).tril(-1)
    ),
}


@pytest.mark.parametrize("name", [*NETWORKS, *MORE])
def test_it_computes_what_torch_computes(name):
    network = imported(Network(name, (NETWORKS | MORE)[name]))
    machine = runner(compiled(network.module, network.values, "sse2"), network.inputs)
    (computed,), (expected,) = arrays_of(machine()), network.expected
    assert difference(computed, expected) < 2e-6
    if name in MORE:
        assert not re.search(SLOW, network.module.script())


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_steps_of_a_recurrent_network_are_calls_of_the_same_tasks(kind):
    graphs = []
    for steps in (6, 8):
        layer = Does(lambda layer, x: layer(x)[0], kind(8, 6))
        network = Network("mine", lambda layer=layer, n=steps: (layer, (torch.randn(n, 1, 8),)))
        graphs.append(graph_of(imported(network)))
    assert len(graphs[0].tasks) == len(graphs[1].tasks)
    assert len(graphs[1].calls) - len(graphs[0].calls) <= 2 * 3  # programs a step
    packed_once = [call.reads for call in graphs[1].calls if len(call.reads) > 1]
    assert len({*packed_once}) < len(packed_once)  # steps share their weights


def test_a_product_and_numbers_that_are_computed_from_nothing_are_a_task_with_schedules():
    biased = Does(lambda x: x @ x + functional.pad(torch.zeros(5), (0, 3), value=-1.0))
    network = imported(Network("mine", lambda: (biased, (torch.randn(8, 8),))))
    (task,) = graph_of(network).tasks
    assert Sampler(task, 0).draw(1)


def test_a_step_that_the_next_one_undoes_is_none():
    there_and_back = Does(
        lambda x: x.reshape(5, 2, 8).permute(1, 2, 0).permute(2, 0, 1).reshape(2, 5, 8).relu()
    )
    network = Network("mine", lambda: (there_and_back, (torch.randn(2, 5, 8),)))
    assert graph_of(imported(network)).names == ("relu1",)


def test_copies_join_what_reads_them_or_are_none():
    def heads(first: nn.Module, x: torch.Tensor) -> torch.Tensor:
        """Attention of two heads, and a convolution's result read by places."""
        queries, keys, values = first(x).transpose(1, 2).reshape(1, 6, 3, 2, 4).unbind(2)
        parts = (part.transpose(1, 2) for part in (queries, keys, values))
        return functional.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(1, 6, 8)

    network = imported(
        Network("mine", lambda: (Does(heads, nn.Conv1d(4, 24, 3)), (torch.randn(1, 4, 8),)))
    )
    graph = graph_of(network)
    assert not [name for name in graph.names if re.fullmatch(r"(reshape|squeeze|split)\d*", name)]
    assert any(re.fullmatch(r"conv1d_add\d*", name) for name in graph.names)
    resized = Does(
        lambda f, x: functional.interpolate(f(x), (9, 9), mode="bilinear").relu(),
        nn.Conv2d(4, 8, 1),
    )
    names = graph_of(imported(Network("mine", lambda: (resized, image())))).names
    assert any(re.fullmatch(r"resize2d\d*_relu\d*", name) for name in names)
    read = Network("mine", lambda: (Does(lambda x: x.reshape(2, 4).exp()), (torch.randn(8),)))
    assert [call.reads for call in graph_of(imported(read)).calls] == [((0, 32),)]


@st.composite
def transposed_convolutions(draw) -> tuple[nn.Module, torch.Tensor]:
    """A transposed convolution of any settings that TVM takes, and its input."""
    rank = draw(st.sampled_from([1, 2, 3]))
    groups = draw(st.sampled_from([1, 1, 2]))

    def sizes(most: int | tuple[int, ...], least: int = 1) -> tuple[int, ...]:
        """Numbers from the least to the most of each dimension."""
        mosts = most if isinstance(most, tuple) else (most,) * rank
        return tuple(draw(st.integers(least, most)) for most in mosts)

    kernel, stride, dilation, inputs = sizes(5), sizes(4), sizes(2), sizes(5)
    padding = sizes(tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True)), 0)
    more = sizes(tuple(s - 1 for s in stride), 0)
    kinds = nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d
    kind, channels = kinds[rank - 1], 2 * groups
    how = {"groups": groups, "bias": draw(st.booleans()), "dilation": dilation}
    layer = kind(channels, 3 * groups, kernel, stride, padding, more, **how)
    return layer.eval(), torch.randn(draw(st.sampled_from([1, 2])), channels, *inputs)


@settings(max_examples=25)
@given(transposed_convolutions())
def test_transposed_convolutions_are_ordinary_ones_or_products(drawn):
    layer, x = drawn
    with torch.no_grad():
        source = from_torch("transposed", layer, (x,))
    module = fused(source.module)
    _, (computed,), _ = run(source, module)
    assert difference(computed, source.expected[0]) < 2e-6
    assert not re.search(r"conv\dd_transpose", module.script())


@pytest.fixture(scope="module")
def network():
    layers = nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 32)
    return imported(Network("mine", lambda: (nn.Sequential(*layers), (torch.randn(1, 8, 8, 8),))))


@pytest.fixture(scope="module")
def drawn(network):
    """Of each task that has weights: the task, its arguments, and programs that pack them."""
    graph = graph_of(network)
    found = []
    for k, task in enumerate(graph.tasks):
        if weights_of(task):
            programs = Sampler(task, 3).draw(6)
            values = network.arguments(f for f, j in graph.functions.items() if j == k)
            found.append((task, values, programs))
    return found


def test_packed_weights_change_the_time_and_not_the_result(drawn):
    assert len(drawn) == 2
    for task, values, programs in drawn:
        modules = [task, *(program.mod for program in programs)]
        parts = [packed(module) for module in modules]
        assert parts[0].pack is None and any(part.pack for part in parts)
        seconds, checks = running.time_programs(
            running.Batch(hash_of(task), modules, "sse2", values, footprint=1 << 20)
        )
        assert np.isfinite(seconds).all() and same(checks, checks[0]).all()
        for module, part in zip(modules, parts, strict=True):
            if part.pack:
                before, after = (
                    [tuple(map(int, p.shape)) for p in x["main"].params]
                    for x in (module, part.program)
                )
                assert {k for k in range(len(before)) if before[k] != after[k]} <= {*part.writes}
                for read, written in zip(part.reads, part.writes, strict=True):
                    assert np.prod(before[read]) == np.prod(after[written])


def test_a_library_runs_without_this_project(network, drawn, tmp_path):
    database = TuningDatabase(tmp_path, "sse2")
    for task, _, programs in drawn:
        database.add(task, programs[0], 1e-6)
    tuned = best_of(network.module, database)
    library = compiled(tuned, network.values, "sse2")
    with exported(tmp_path, library):
        runner(library, network.inputs)()
    write(tmp_path, network, {"threads": 2})
    again = runner(tvm.runtime.load_module(str(tmp_path / LIBRARY)), network.inputs)
    assert difference(arrays_of(again())[0], network.expected[0]) < 1e-5
    ran = subprocess.run(
        [sys.executable, "-I", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert not ran.stderr
    assert 'os.environ["TVM_NUM_THREADS"] = "2"' in (tmp_path / SCRIPT).read_text()
    told = json.loads((tmp_path / "network.json").read_text())["inputs"]
    assert told == [{"name": "input", "shape": [1, 8, 8, 8], "dtype": "float32"}]
    torch.manual_seed(0)
    numbers = np.array(re.findall(r"-?\d+\.\d+(?:e-?\d+)?", ran.stdout), float)
    assert len(numbers) == 32 and np.isfinite(numbers).all()


def test_torch_runs_an_archive_as_the_user_exported_it(tmp_path):
    module, inputs = attention()
    torch.export.save(torch.export.export(module, inputs), tmp_path / "network.pt2")
    found = imported(named(str(tmp_path / "network.pt2"), None))
    operators = {node.target for node in found.built[0].graph.nodes}
    assert torch.ops.aten.scaled_dot_product_attention.default in operators
