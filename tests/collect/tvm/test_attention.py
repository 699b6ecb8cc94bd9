"""Attention as one program: what PyTorch computes, under each of its schedules."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is in an environment of its own")

import onnx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from tvm import te, topi
from tvm.runtime import empty, tensor

from lib.collect.tvm.agreement import difference
from lib.collect.tvm.attention import ROWS, attention, schedules
from lib.collect.tvm.compiler import Sampler, alone, by_hand, lowered, machine_program
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import arrays_of, imported
from lib.collect.tvm.library import compiled, runner
from lib.collect.tvm.networks import Network, named
from lib.collect.tvm.rewriting import QUERIES
from tests.collect.tvm.test_importing import Does

COUNTS, WIDTHS = st.integers(1, 70), st.sampled_from([16, 48, 64])


def program(*shapes, mask=None, scale=1.0, causal=False, side_by_side=1):
    parts = [te.placeholder(shape, name=f"x{k}") for k, shape in enumerate(shapes)]
    masks = [te.placeholder(mask, name="mask")] if mask else []
    result = attention(*parts, *(masks or [None]), scale, causal, side_by_side)
    return alone(te.create_prim_func([*parts, *masks, result]))


@st.composite
def cases(draw):
    """Queries, keys, values, what else there is to attention, and a shape of a mask."""
    examples, heads, shared = (draw(st.integers(1, 2)) for _ in range(3))
    queries = draw(st.just(1) | COUNTS)
    keys, width, outputs = (draw(kind) for kind in (COUNTS, WIDTHS, WIDTHS))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    heads, several = heads * shared, heads
    shapes = (heads, queries, width), (several, keys, width), (several, keys, outputs)
    parts = [torch.randn(examples, *shape, generator=generator) - 1 for shape in shapes]
    full = examples, heads, queries, keys
    mask = draw(st.none() | st.tuples(*(st.sampled_from([1, length]) for length in full)))
    if mask:
        mask = torch.where(torch.rand(mask, generator=generator) < 0.6, 0.5, -np.inf)
    causal = mask is None and draw(st.booleans())
    return parts, mask, {"scale": draw(st.floats(0.1, 2)), "causal": causal}


@settings(max_examples=20)
@given(cases())
def test_every_schedule_computes_attention(case):
    parts, mask, how = case
    flags = {"attn_mask": mask, "scale": how["scale"], "is_causal": how["causal"]}
    expected = functional.scaled_dot_product_attention(*parts, **flags, enable_gqa=True)
    flat = [part.flatten(0, 1) for part in parts]
    how |= {"mask": mask if mask is None else tuple(mask.shape), "side_by_side": parts[0].shape[1]}
    found = schedules(program(*(part.shape for part in flat), **how))
    few = parts[0].shape[2] == 1 and parts[0].shape[1] <= QUERIES * parts[1].shape[1]
    assert len(found) in ((1,) if few else (2, 4))
    masks = [] if mask is None else [mask]
    for schedule in found:
        result = empty(expected.flatten(0, 1).shape, "float32")
        run = machine_program(lowered([schedule.mod]), "avx2")["f0"]
        run(*(tensor(part.contiguous().numpy()) for part in (*flat, *masks)), result)
        assert np.allclose(np.from_dlpack(result), expected.flatten(0, 1), atol=1e-4)


def test_a_cache_holds_its_scores_and_weights():
    few, many, *_ = schedules(program((2, 1500, 64), (2, 700, 64), (2, 700, 64)))
    for schedule, rows in ((few, ROWS), (many, 60)):  # of 1 MiB: at most 186, a part of 1,500
        loops = schedule.get_loops(schedule.get_sblock("mean"))
        assert int(schedule.get(loops[2]).extent) == rows
    product = topi.nn.matmul(te.placeholder((9, 9), name="x"), te.placeholder((9, 9), name="y"))
    assert by_hand(alone(te.create_prim_func([*product.op.input_tensors, product]))) is None


SEEN = torch.rand(1, 1, 200, 200) < 0.9
LARGE = {
    "no mask": (4, {}),
    "causal, heads share keys": (2, {"is_causal": True, "enable_gqa": True}),
    "a mask, of which a row is all": (4, {"attn_mask": SEEN & (torch.arange(200)[:, None] != 7)}),
    "a mask that is added": (4, {"attn_mask": torch.randn(200, 200), "scale": 0.1}),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_network_has_it_where_no_cache_holds_all_scores(name):
    keys, how = LARGE[name]
    network = Does(lambda x, y: functional.scaled_dot_product_attention(x, y, y, **how))
    inputs = torch.randn(8, 4, 200, 16), torch.randn(8, keys, 200, 16)
    found = imported(Network("mine", lambda: (network, inputs)))
    tasks = [task for task in graph_of(found).tasks if by_hand(task)]
    assert len(tasks) == 1
    assert len({s.mod.script() for s in Sampler(tasks[0], 0).draw(8)}) == 4  # and no others
    machine = runner(compiled(found.module, found.values, "sse2"), found.inputs)
    assert difference(arrays_of(machine())[0], found.expected[0]) < 2e-6


def written_out(x, y, scale=lambda s: s / 4, mask=lambda s: s, result=lambda w, y: w @ y):
    scores = mask(scale(x @ y.transpose(-1, -2)))
    weights = functional.softmax(scores, -1, dtype=torch.float32).to(x.dtype)
    return result(functional.dropout(weights, 0.1, False), y)


HIDDEN = SEEN.logical_not()
WRITTEN = {  # and whether PyTorch's operator takes its place
    "a quotient": (True, {}),
    "a product": (True, {"scale": lambda scores: scores * 0.3}),
    "queries as scaled": (True, {"scale": lambda scores: scores}),
    "a mask that is added": (True, {"mask": lambda scores: scores + SEEN.log()}),
    "a mask": (True, {"mask": lambda scores: scores.masked_fill(HIDDEN, -torch.inf)}),
    "low scores": (False, {"mask": lambda scores: scores.masked_fill(HIDDEN, -9.0)}),
    "a mask of more axes": (False, {"mask": lambda scores: scores + torch.ones(2, 1, 1, 1, 1)}),
    "weights that are read": (False, {"result": lambda weights, y: (weights @ y, weights)}),
    "weights of queries": (False, {"mask": lambda scores: scores.transpose(-1, -2)}),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_it_is_found_where_a_network_writes_it_out(name):
    expected, how = WRITTEN[name]
    inputs = torch.randn(8, 4, 200, 16), torch.randn(8, 4, 200, 16)
    found = imported(Network("mine", lambda: (Does(partial(written_out, **how)), inputs)))
    assert len([task for task in graph_of(found).tasks if by_hand(task)]) == expected


SOME = SEEN[:, :, :1, :77]


def attended(x, y, shape=(), **how):
    y = y.unsqueeze(shape.index(2)).expand(*shape).reshape(1, 4, 77, 16) if shape else y
    return functional.scaled_dot_product_attention(x, y, y, SOME, **how)


FEW = {  # and how many heads of keys it reads, of two that are given
    "heads share keys": (2, partial(attended, enable_gqa=True)),
    "keys are repeated": (2, partial(attended, shape=(1, -1, 2, 77, 16))),
    "keys are repeated in turns": (4, partial(attended, shape=(1, 2, -1, 77, 16))),
    "written out": (2, lambda x, y: written_out(x[:, :2], y, mask=lambda s: s + SOME.log())),
}


@pytest.mark.parametrize("name", FEW)
def test_a_step_of_a_decoder_reads_its_keys_as_they_lie(name):
    heads, attend = FEW[name]
    inputs = torch.randn(1, 4, 1, 16), torch.randn(1, 2, 77, 16)
    found = imported(Network("mine", lambda: (Does(attend), inputs)))
    (task,) = [task for task in graph_of(found).tasks if by_hand(task)]
    assert [*map(int, task["main"].params[1].shape)] == [heads, 77, 16]
    machine = runner(compiled(found.module, found.values, "sse2"), found.inputs)
    assert difference(arrays_of(machine())[0], found.expected[0]) < 2e-6


def test_a_network_has_parts_where_a_cache_holds_all_scores():
    network = Does(lambda x: functional.scaled_dot_product_attention(x, x, x))
    found = imported(Network("mine", lambda: (network, (torch.randn(8, 4, 64, 16),))))
    assert not [task for task in graph_of(found).tasks if by_hand(task)]


X, K = onnx.helper.make_node, ("k", "columns")
TURNED = {  # how columns are made of keys (1, 2, 77, 16), or whatever has their numbers
    "turned": ((1, 2, 77, 16), [X("Transpose", K[:1], K[1:], perm=[0, 1, 3, 2])]),
    "heads are last": ((1, 77, 2, 16), [X("Transpose", K[:1], K[1:], perm=[0, 2, 3, 1])]),
    "shaped": (
        (1, 2, 77, 16),
        [
            *(X("Reshape", ["k", "three"], ["a"]), X("Transpose", ["a"], ["b"], perm=[0, 2, 1])),
            X("Reshape", ["b", "four"], ["columns"]),
        ],
    ),
    "as they are": ((1, 2, 16, 77), [X("Identity", *([name] for name in K))]),
}


@pytest.mark.parametrize(("name", "queries"), [*((name, 1) for name in TURNED), ("turned", 3)])
def test_an_onnx_file_has_it_as_one_program(name, queries, tmp_path):
    shape, nodes = TURNED[name]
    mask = SEEN[:, :, :queries, :77].float().numpy()  # of more queries, scores become as many
    constants = {"scale": np.float32(0.3), "root": np.float32(2), "mask": mask}
    constants |= {"three": np.array([2, 77, 16]), "four": np.array([1, 2, 16, 77])}
    nodes = [
        *(*nodes, X("Mul", ["columns", "scale"], ["less"]), X("MatMul", ["q", "less"], ["whole"])),
        *(X("Div", ["whole", "root"], ["scores"]), X("Add", ["scores", "mask"], ["seen"])),
        *(X("Softmax", ["seen"], ["w"], axis=-1), X("MatMul", ["w", "v"], ["y"])),
    ]
    shapes = {"q": (1, 2, 1, 16), "k": shape, "v": (1, 2, 77, 16), "y": (1, 2, queries, 16)}
    *inputs, result = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    weights = [onnx.numpy_helper.from_array(np.array(x), n) for n, x in constants.items()]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [result], weights)
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "n.onnx"
    )
    tasks = graph_of(imported(named(str(tmp_path / "n.onnx"), None))).tasks  # fails if they differ
    assert any(map(by_hand, tasks)) == (queries == 1)
    if queries > 1:
        return
    turned = [task for task in tasks if "77" in task.script() and not by_hand(task)]
    assert len(turned) == (name in ("heads are last", "as they are"))
