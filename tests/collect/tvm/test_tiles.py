"""Tiles by arithmetic: registers hold them, loops are cut whole, and results stay what they are."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is in an environment of its own")

from tvm import topi
from tvm.ir import IRModule
from tvm.te import create_prim_func, placeholder

from lib.collect.tvm.agreement import same
from lib.collect.tvm.compiler import Sampler, alone
from lib.collect.tvm.plain import unscheduled
from lib.collect.tvm.running import Batch, time_programs
from lib.collect.tvm.tiles import ROWS, SPARE, lanes_of, tilings


def convolution(size: int, inputs: int, outputs: int, kernel: int) -> IRModule:
    image = placeholder((1, size, size, inputs), name="image")
    weights = placeholder((kernel, kernel, inputs, outputs), name="weights")
    result = topi.nn.conv2d_nhwc(image, weights, 1, kernel // 2, 1)
    return alone(create_prim_func([image, weights, topi.nn.relu(result)]))


def apart(size: int, channels: int, kernel: int, group: int = 1) -> IRModule:
    """Return a convolution of each channel on its own, or of groups of some, as networks are
    imported with it."""
    image = placeholder((1, size, size, channels), name="image")
    weights = placeholder((kernel, kernel, group, channels), name="weights")
    how = {"data_layout": "NHWC", "kernel_layout": "HWIO", "groups": channels // group}
    result = topi.nn.conv(image, weights, 1, kernel // 2, 1, **how)
    return alone(create_prim_func([image, weights, topi.nn.relu(result)]))


def product(rows: int, summed: int, columns: int) -> IRModule:
    left, right = placeholder((rows, summed), name="a"), placeholder((summed, columns), name="b")
    return alone(create_prim_func([left, right, topi.nn.matmul(left, right)]))


def cuts_of(schedule) -> list[tuple[int, ...]]:
    """Return the cuts of all loops but the sum's."""
    cuts = [
        tuple(map(int, schedule.trace.decisions[step]))
        for step in schedule.trace.insts
        if step.kind.name == "SamplePerfectTile"
    ]
    return [cut for cut in cuts if len(cut) == 4]


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize(
    "task",
    [
        convolution(7, 24, 64, 3),
        convolution(14, 16, 48, 1),
        product(30, 64, 96),
        product(1, 64, 96),
        convolution(7, 256, 128, 3),
        apart(14, 32, 3),
        apart(7, 48, 5),
        apart(7, 96, 3, 16),
    ],
)
def test_tiles_fit_registers_and_compute_the_same(task, lanes):
    found = tilings(Sampler(task, 0), lanes, 9)
    assert found
    for schedule in found:
        *outer, columns = cuts_of(schedule)
        rows = math.prod(cut[3] for cut in outer)
        vector = all(math.prod(cut) == 1 for cut in outer)
        assert columns[3] % lanes == 0 and rows in ([1] if vector else ROWS)
        assert rows * columns[3] // lanes <= 2 * lanes - SPARE
    modules = [schedule.mod for schedule in (unscheduled(task)[0], found[0], found[-1])]
    seconds, checks = time_programs(Batch("0", modules, "native"))
    assert np.isfinite(seconds).all() and same(checks, checks[0]).all()


def test_forty_channels_are_vectors_of_eight():
    found = tilings(Sampler(convolution(14, 16, 40, 1), 0), 16, 3)
    assert {cuts_of(schedule)[-1][3] for schedule in found} == {8}


def test_a_vector_is_of_one_group_of_channels():
    for lanes, group, tile in ((8, 8, {8}), (16, 8, {8}), (8, 24, {8}), (8, 32, {8, 16, 32})):
        found = tilings(Sampler(apart(8, 96, 3, group), 0), lanes, 99)
        assert {cuts_of(schedule)[-1][3] for schedule in found} == tile


def test_a_sum_that_no_small_number_divides_is_taken_in_larger_parts():
    (found, *_) = tilings(Sampler(product(32, 415, 64), 0), 8, 3)
    steps = [step for step in found.trace.insts if step.kind.name == "SamplePerfectTile"]
    assert [5, 83] in [[*map(int, found.trace.decisions[step])] for step in steps]


def test_an_image_of_14_pixels_has_tiles_of_two_lines_and_gets_its_zeros_once():
    """Of 14 pixels there are no four, and seven rows of one vector load more; the convolution's own
    loops would each add zeros again."""
    tiles = set()
    for schedule in tilings(Sampler(convolution(14, 32, 64, 3), 0), 8, 12):
        _, lines, pixels, columns = cuts_of(schedule)
        tiles.add((lines[3], pixels[3], columns[3]))
        loops = schedule.get_loops(schedule.get_sblock("pad_temp"))
        assert math.prod(schedule.get(loop).extent for loop in loops) == 16 * 16 * 32
    assert tiles == {(2, 2, 16), (1, 2, 32)}


def test_what_has_no_sum_of_many_has_no_tiles():
    image = placeholder((1, 14, 14, 32), name="image")
    assert tilings(Sampler(alone(create_prim_func([image, topi.nn.relu(image)])), 0), 16, 9) == []
    weights = placeholder((3, 3, 32, 1), name="weights")
    result = topi.nn.depthwise_conv2d_nhwc(image, weights, 1, 1, 1)
    assert tilings(Sampler(alone(create_prim_func([image, weights, result])), 0), 16, 9) == []
    assert tilings(Sampler(product(30, 4, 64), 0), 16, 9) == []
    assert tilings(Sampler(product(31, 64, 64), 0), 16, 9) == []
    numbers = placeholder((64,), name="numbers")
    total = alone(create_prim_func([numbers, topi.sum(topi.multiply(numbers, numbers))]))
    assert tilings(Sampler(total, 0), 16, 9) == []


def test_vectors_are_as_long_as_the_processors():
    assert [lanes_of(name) for name in ("sse2", "avx2", "avx512")] == [8, 8, 16]
