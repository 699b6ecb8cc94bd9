"""Convolutions by tiles: what PyTorch computes, under each of their schedules."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is in an environment of its own")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from tvm import te
from tvm.runtime import empty, tensor

from lib.collect.tvm import compiler, winograd
from lib.collect.tvm.agreement import difference
from lib.collect.tvm.compiler import Sampler, alone, by_hand
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import Network
from lib.collect.tvm.plain import unscheduled
from lib.collect.tvm.tiles import tilings
from lib.collect.tvm.winograd import POINTS, PRODUCTS, schedules
from tests.collect.tvm.test_importing import trained


def program(image: tuple[int, ...], outputs: int, padding: list[int]):
    wide = math.gcd(outputs, 16)
    kernel = (outputs // wide, POINTS, POINTS, image[-1], wide)
    given = te.placeholder(image, name="image"), te.placeholder(kernel, name="kernel")
    return alone(te.create_prim_func([*given, winograd.convolution(*given, padding)]))


@settings(max_examples=10)
@given(
    st.integers(1, 2),
    st.integers(5, 21),
    st.integers(5, 70),
    st.sampled_from([8, 16, 72]),
    st.sampled_from([16, 24, 32, 48]),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
)
def test_every_schedule_computes_the_convolution(batch, height, width, inputs, outputs, padding):
    torch.manual_seed(height * width)
    image, kernel = torch.randn(batch, inputs, height, width), torch.randn(outputs, inputs, 3, 3)
    top, left, bottom, right = padding
    expected = functional.conv2d(functional.pad(image, (left, right, top, bottom)), kernel)
    turned = torch.einsum("py,qx,nryx->pqrn", *[torch.from_numpy(winograd.WEIGHTS)] * 2, kernel)
    turned = turned.unflatten(-1, (-1, math.gcd(outputs, 16))).permute(3, 0, 1, 2, 4)
    arguments = [image.permute(0, 2, 3, 1), turned]
    task = program(arguments[0].shape, outputs, padding)
    found = (*unscheduled(task), *schedules(task))
    assert len(found) > 1
    for schedule in found:
        result = empty(expected.permute(0, 2, 3, 1).shape, "float32")
        library = compiler.machine_program(compiler.lowered([schedule.mod]), "avx2")
        library["f0"](*(tensor(argument.contiguous().numpy()) for argument in arguments), result)
        assert difference(np.from_dlpack(result), expected.permute(0, 2, 3, 1).numpy()) < 3e-5


def lengths(schedule, name: str) -> list[int]:
    """Return the lengths of the loops around a step."""
    return [int(schedule.get(x).extent) for x in schedule.get_loops(schedule.get_sblock(name))]


def test_lines_of_tiles_fit_a_cache_and_products_registers():
    found = schedules(program((1, 56, 56, 64), 64, [1, 1, 1, 1]))
    lines, products = set(), set()
    for schedule in found:
        groups, *_ = lengths(schedule, "tiles")
        lines.add(14 // groups)
        products.add(tuple(lengths(schedule, f"{PRODUCTS}_update")[-3:]))
    assert lines == {1, 2, 7} and 4 * POINTS**2 * 14 * 64 * 7 <= winograd.HELD
    assert {lanes for *_, lanes in products} == {8, 16}
    assert all(
        rows * vectors <= dict(winograd.REGISTERS)[lanes] for rows, vectors, lanes in products
    )


def block(size: int, **how):
    """Return a network with a convolution, what is joined to it, and an image for it."""
    how = {"out_channels": 32, "kernel_size": 3, "padding": 1, "bias": False} | how
    layers = nn.Conv2d(16, **how), nn.BatchNorm2d(how["out_channels"])
    return nn.Sequential(layers[0], trained(layers[1]), nn.ReLU()), (
        torch.randn(1, 16, size, size),
    )


TILED = [
    (16, {}),
    (14, {"padding": 2}),
    (15, {"padding_mode": "reflect"}),
    (16, {"out_channels": 24}),
    (16, {"out_channels": 20}),
]
FEW = [(12, {}), (14, {"padding": 0, "bias": True})]  # nine tiles
OTHERS = [
    {"stride": 2},
    {"dilation": 2},
    {"groups": 2},
    {"kernel_size": 5, "padding": 2},
]


@pytest.mark.parametrize("size, how", [*TILED, *FEW, *((16, how) for how in OTHERS)])
def test_convolutions_of_many_tiles_are_computed_by_them(size, how):
    network = imported(Network("one", lambda: block(size, **how)))
    found = [task for task in graph_of(network).tasks if by_hand(task)]
    assert len(found) == ((size, how) in TILED)
    for task in found:
        assert tilings(sampler := Sampler(task, 0), 8, 9) == sampler.designs


def test_volumes_are_computed_by_tiles():
    layer = nn.Conv3d(8, 16, 3, padding=1), (torch.randn(1, 8, 2, 16, 16),)
    tasks = graph_of(imported(Network("one", lambda: layer))).tasks
    assert len([task for task in tasks if by_hand(task)]) == 1
