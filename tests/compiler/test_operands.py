"""Which operand is which, whatever the order of edges, and what the operations prefer."""

from __future__ import annotations

import time
from itertools import combinations_with_replacement, permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.compiler.graph import TensorGraph
from lib.compiler.operands import NUMBERS, DotNumbers, _oddity, constrained_tensors, dot_numbers
from lib.ranking.baseline import moved_bytes
from lib.tpugraphs.opcodes import CONVOLUTION
from tests.compiler.builders import Builder

OFFICIAL = Path(__file__).parents[3] / "shared" / "tpugraphs" / "official"
UNET = OFFICIAL / "npz" / "layout" / "xla" / "default" / "train" / "unet3d.npz"


def fits(lhs, rhs, out, numbers) -> bool:
    """Whether a dot of these shapes and dimension numbers has this output."""
    sides = list(zip((lhs, rhs), numbers.batch, numbers.free, numbers.contracted, strict=True))
    batches, frees, contracted = ([[s[d] for d in one[i]] for s, *one in sides] for i in range(3))
    every = all(sorted((*b, *f, *c)) == list(range(len(s))) for s, b, f, c in sides)
    agree = batches[0] == batches[1] and contracted[0] == contracted[1]
    return every and agree and [*batches[0], *frees[0], *frees[1]] == list(out)


SHAPES = st.lists(st.sampled_from((1, 2, 3)), max_size=3).map(tuple)


@given(SHAPES, SHAPES, SHAPES)
@settings(deadline=None, max_examples=200)
def test_dot_numbers_are_the_plainest_that_fit(lhs, rhs, out):
    """Of all ways to call the dimensions of both operands batch, free or contracted.

    Those that are contracted are named as pairs, in the order of the left operand's.
    """

    def splits(rank):
        for order in permutations(range(rank)):
            for batch, free in combinations_with_replacement(range(rank + 1), 2):
                if list(order[batch:free]) == sorted(order[batch:free]):
                    yield order[:batch], order[batch:free], order[free:]

    lefts = (one for one in splits(len(lhs)) if sorted(one[2]) == list(one[2]))
    pairs = product(lefts, splits(len(rhs)))
    every = (DotNumbers(*zip(left, right, strict=True)) for left, right in pairs)
    fitting = [_oddity(one, len(lhs)) for one in every if fits(lhs, rhs, out, one)]
    found = dot_numbers(lhs, rhs, out)
    assert (found is None) == (not fitting)
    if found is not None:
        assert fits(lhs, rhs, out, found)
        assert _oddity(found, len(lhs)) == min(fitting)


@pytest.mark.parametrize("rank", range(0, 13, 2))
def test_dots_of_many_equal_sizes_take_no_time(rank):
    """Of the hundreds of thousands of dimension numbers that fit, few are looked at."""
    started = time.process_time()
    found = dot_numbers((2,) * 6, (2,) * 6, (2,) * rank)
    assert fits((2,) * 6, (2,) * 6, (2,) * rank, found)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("swapped", [False, True])
def test_where_shapes_fit_both_ways_the_window_tells_the_kernel(swapped):
    made = Builder()
    image = made.add("parameter", (2, 16, 16, 16))
    kernel = made.add("reverse", (2, 2, 16, 16), made.add("parameter", (2, 2, 16, 16)))
    operands = (kernel, image) if swapped else (image, kernel)
    node = made.convolution((2, 8, 8, 16), *operands, window_size_0=2, window_size_1=2)
    tensors = TensorGraph.of(made.graph([node], [[((), (), ())]]))
    assert constrained_tensors(tensors, node).tensors == (node, image, kernel)


@pytest.mark.skipif(not UNET.exists(), reason="needs ../shared")
def test_the_kernels_of_unet3d_have_the_sizes_of_its_windows():
    with np.load(UNET) as npz:
        parts = (npz[name] for name in ("node_feat", "node_opcode", "edge_index"))
        tensors = TensorGraph(*parts, npz["node_config_ids"])
    nodes = np.flatnonzero(tensors.opcode == CONVOLUTION).tolist()
    assert len(nodes) == 53
    kernels = {node: constrained_tensors(tensors, node).tensors[2] for node in nodes}
    assert [kernels[node] for node in (784, 1241, 1365, 1477)] == [594, 460, 526, 592]
    for node, kernel in kernels.items():
        dimensions = (tensors.feature(node, f"{NUMBERS}kernel_spatial_dims_{d}") for d in range(3))
        sizes = [tensors.shapes[kernel][d] for d in dimensions]
        assert sizes == [tensors.feature(node, f"window_size_{d}") for d in range(3)]


def test_what_a_dot_of_heads_prefers():
    """(batch, row, head, depth) times (batch, column, head, depth), heads and batch outermost."""
    made = Builder()
    query = made.add("parameter", (2, 5, 3, 8))
    key = made.add("parameter", (2, 7, 3, 8))
    node = made.add("dot", (2, 3, 5, 7), query, key)
    constrained = constrained_tensors(TensorGraph.of(made.graph([node], [[((), (), ())]])), node)
    assert constrained.preferred[1] == (3, 1, 2, 0)  # minor to major: depth, row, head, batch
    assert constrained.preferred[2] == (1, 3, 2, 0)  # column, depth, head, batch


@pytest.mark.parametrize("swapped", [False, True])
def test_the_baseline_counts_the_tensor_that_a_layout_constrains(swapped):
    made = Builder()
    kernel = made.add("parameter", (1, 1, 4, 32))
    image = made.add("parameter", (4, 8, 8, 4))
    node = made.convolution((4, 8, 8, 32), *((kernel, image) if swapped else (image, kernel)))
    plain, moved = (3, 2, 1, 0), (0, 1, 2, 3)
    graph = made.graph(
        [node],
        [
            [(plain, plain, plain)],
            [(plain, moved, plain)],
            [(plain, plain, moved)],
            [(moved, plain, ())],
        ],
    )
    sizes = [0, 4 * 4 * 8 * 8 * 4, 4 * 4 * 32, 4 * 4 * 8 * 8 * 32]
    np.testing.assert_array_equal(moved_bytes(graph), sizes)
