"""Attention as one program: what PyTorch computes, under each of its schedules."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is in an environment of its own")

import torch
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from tvm import te, topi
from tvm.ir import IRModule

from lib.collect.tvm.attention import ROWS, attention, schedules
from lib.collect.tvm.compiler import Sampler, alone, lowered, machine_program
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import Network
from lib.collect.tvm.rewriting import MOST_SCORES
from tests.collect.tvm.test_importing import Does

COUNTS, WIDTHS = st.integers(1, 70), st.sampled_from([16, 48, 64])


def program(*shapes: tuple[int, ...], scale: float) -> IRModule:
    parts = [te.placeholder(shape, name=f"x{k}") for k, shape in enumerate(shapes)]
    return alone(te.create_prim_func([*parts, attention(*parts, scale)]))


@settings(max_examples=8)
@given(st.integers(1, 3), COUNTS, COUNTS, WIDTHS, WIDTHS, st.floats(0.1, 2))
def test_every_schedule_computes_attention(heads, queries, keys, width, outputs, scale):
    shapes = (heads, queries, width), (heads, keys, width), (heads, keys, outputs)
    generator = torch.Generator().manual_seed(queries)
    parts = [torch.randn(shape, generator=generator) - 3 for shape in shapes]
    expected = functional.scaled_dot_product_attention(*parts, scale=scale)
    found = schedules(program(*shapes, scale=scale))
    assert len(found) in (2, 4)
    for schedule in found:
        result = tvm.runtime.empty(expected.shape, "float32")
        run = machine_program(lowered([schedule.mod]), "avx2")["f0"]
        run(*map(tvm.runtime.tensor, (part.numpy() for part in parts)), result)
        assert np.allclose(np.from_dlpack(result), expected, atol=1e-4)


def test_a_cache_holds_its_scores_and_weights():
    few, many, *_ = schedules(program((2, 1500, 64), (2, 700, 64), (2, 700, 64), scale=1.0))
    for schedule, rows in ((few, ROWS), (many, 60)):  # of 1 MiB: at most 186, a part of 1,500
        loops = schedule.get_loops(schedule.get_sblock("mean"))
        assert int(schedule.get(loops[2]).extent) == rows
    product = topi.nn.matmul(te.placeholder((9, 9), name="x"), te.placeholder((9, 9), name="y"))
    assert schedules(alone(te.create_prim_func([*product.op.input_tensors, product]))) == []


def test_a_network_has_it_where_no_cache_holds_all_scores():
    network = Does(lambda x: functional.scaled_dot_product_attention(x, x, x))
    tasks = {}
    for count in (64, 200):
        inputs = (torch.randn(1, 32, count, 16),)
        graph = graph_of(imported(Network("mine", lambda inputs=inputs: (network, inputs))))
        tasks[32 * count**2 > MOST_SCORES] = [task for task in graph.tasks if schedules(task)]
    assert tasks[False] == [] and len(tasks[True]) == 1
    drawn = Sampler(tasks[True][0], 0).draw(8)  # a search has no other
    assert len({schedule.mod.script() for schedule in drawn}) == 4
