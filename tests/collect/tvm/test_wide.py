"""Channels are filled up to whole vectors, and a network computes what it did."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from lib.collect.tvm.compiler import Sampler
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import Imported, imported
from lib.collect.tvm.networks import Network
from lib.collect.tvm.plain import unscheduled
from lib.collect.tvm.wide import MOST_TOGETHER, together, width
from tests.collect.tvm.test_importing import Does, trained

SIZE = 14  # of images


@given(st.integers(1, 1 << 17))
def test_it_adds_a_part_of_a_vector(channels):
    filled = width(channels)
    assert filled % 8 == 0 and 0 <= filled - channels < 16
    assert filled - channels < 8 or 8 * (filled - channels) <= channels


@given(st.integers(1, 64), st.integers(1, 64))
def test_groups_become_few_of_whole_vectors(groups, outputs):
    count = together(groups, outputs)
    assert groups % count == 0 and 1 <= count <= MOST_TOGETHER
    fewer = [n for n in range(1, count) if n * outputs % 8 == 0]
    assert count == 1 or (count * outputs % 8 == 0 and not fewer)


@pytest.mark.parametrize(
    ("inputs", "outputs", "groups", "fewer"),
    [(16, 16, 4, 2), (12, 24, 6, 3), (8, 16, 8, 2), (20, 40, 4, 1), (15, 9, 3, 3), (12, 12, 2, 2)],
)
def test_groups_of_few_channels_become_one(inputs, outputs, groups, fewer):
    layer = nn.Conv2d(inputs, outputs, 3, groups=groups)
    network = imported(Network("groups", lambda: (layer, (torch.randn(1, inputs, 9, 9),))))
    assert (3, 3, inputs // fewer, outputs) in shapes_of(network)


@pytest.mark.parametrize(("rows", "columns"), [(27, 32), (7, 7), (48, 48), (99, 104)])
def test_products_of_two_results_are_of_whole_vectors(rows, columns):
    def attention(x: torch.Tensor) -> torch.Tensor:
        return (x @ x.mT).masked_fill(x[..., :1].mT < 0, -9).softmax(-1) @ x

    x = torch.randn(3, rows, 20)
    network = imported(Network("attention", lambda: (Does(attention), (x,))))
    assert (3, 20, columns) in shapes_of(network)
    assert (3, rows, 24 if rows > 7 else 20) in shapes_of(network)


def test_a_softmax_keeps_columns_that_are_added():
    def attention(one: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights = (x @ x.mT * one.bias - 1).softmax(-1)
        return weights @ x, weights

    x = torch.randn(3, 99, 20)
    network = imported(Network("x", lambda: (Does(attention, nn.Linear(1, 1)), (x,))))
    assert {(3, 20, 104), (3, 99, 104), (3, 104, 24)} <= shapes_of(network)


def shapes_of(network: Imported) -> set[tuple[int, ...]]:
    tasks = graph_of(network).tasks
    return {(*map(int, p.shape),) for task in tasks for p in task["main"].params}


def convolutions(*layers: nn.Module) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return nn.Sequential(nn.Conv2d(16, 30, 1), *layers), (torch.randn(1, 16, SIZE, SIZE),)


def gated(first: nn.Module, gate: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = first(x).relu()
    return y * gate(functional.adaptive_avg_pool2d(y, 1)).sigmoid()


def norm() -> nn.Module:
    return trained(nn.BatchNorm2d(30))


WHOLE = {  # networks of which all is computed with more channels
    "alone": lambda: convolutions(
        *(norm(), nn.SiLU(), nn.Conv2d(30, 30, 3, 2, 1, groups=30), norm(), nn.GELU()),
        *(nn.Hardswish(), nn.Conv2d(30, 30, 3, padding=1), nn.LeakyReLU(0.1), nn.Tanh()),
        *(nn.MaxPool2d(2), nn.Conv2d(30, 24, 1)),
    ),
    "layers": lambda: (
        nn.Sequential(nn.Linear(50, 30), nn.ReLU(), nn.Linear(30, 30), nn.Linear(30, 64)),
        (torch.randn(2, 60, 50),),
    ),
    "sequences": lambda: (
        nn.Sequential(nn.Conv1d(20, 30, 5), nn.GELU(), nn.Conv1d(30, 32, 3, 2)),
        (torch.randn(1, 20, 140),),
    ),
}
ADDED = torch.arange(2000.0)[:, None]  # to one channel
PARTS = {  # networks that must have no more channels at some places
    "a gate": lambda: (
        Does(gated, nn.Conv2d(16, 30, 1), nn.Conv2d(30, 30, 1)),
        (torch.randn(1, 16, SIZE, SIZE),),
    ),
    "what divides by zeros": lambda: (
        Does(lambda f, g, x: g(f(x).tanh() / f(x)), nn.Linear(50, 50), nn.Linear(50, 50)),
        (torch.randn(99, 50),),
    ),
    "a constant for one channel": lambda: (
        Does(lambda f, x: (f(x) + ADDED).clamp(min=1), nn.Linear(64, 1)),
        (torch.randn(2000, 64),),
    ),
    "a padded tensor": lambda: (
        Does(lambda f, x: f(x) + functional.pad(x[:, :1], (0, 7)), nn.Linear(64, 8)),
        (torch.randn(2000, 64),),
    ),
    "by a vector": lambda: (
        Does(lambda f, x: f(x) @ f.bias, nn.Linear(50, 50)),
        (torch.randn(99, 50),),
    ),
    "two vectors": lambda: (Does(lambda x: x @ x.exp()), (torch.randn(999),)),
    "a batch and one": lambda: (
        Does(lambda x: x[:, :1].exp() @ x.mT @ x),
        (torch.randn(2, 5, 30, 30),),
    ),
    "groups": lambda: convolutions(nn.Conv2d(30, 30, 3, groups=3), nn.ELU(), nn.Conv2d(30, 60, 1)),
    "a shuffle": lambda: convolutions(nn.ReLU(), nn.ChannelShuffle(2), nn.Conv2d(30, 30, 1)),
    "normalized over channels": lambda: convolutions(nn.GroupNorm(5, 30), nn.Softmax(1)),
    "padded": lambda: convolutions(nn.ZeroPad2d(2), nn.AvgPool2d(2), nn.Upsample(scale_factor=2)),
    "two results": lambda: (
        Does(lambda f, x: (f(x), f(x).relu().mean((2, 3))), nn.Conv2d(16, 30, 1)),
        (torch.randn(1, 16, SIZE, SIZE),),
    ),
}


@pytest.mark.parametrize("name", [*WHOLE, *PARTS])
def test_it_computes_what_it_did(name):
    network = imported(Network(name, (WHOLE | PARTS)[name]))  # which compares with PyTorch
    tasks = graph_of(network).tasks
    assert all(Sampler(task, 0).designs and unscheduled(task) for task in tasks)
    programs = [task["main"] for task in tasks]
    lasts = {int(n) for program in programs for p in program.params for n in p.shape[-1:]}
    assert name in PARTS or 30 not in lasts
