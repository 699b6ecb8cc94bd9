"""How often a library call computes an operation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.compiler.cpu.facts import ProgramFacts
from lib.compiler.cpu.library import Library
from lib.compiler.cpu.nests import LARGEST_AREA, LoopNests, tile
from lib.compiler.graph import TensorGraph
from lib.tpugraphs.encoding import FEATURE_NAMES
from tests.compiler.builders import Builder
from tests.compiler.cpu.test_calls import WIDE, chain


def times_of(made: Builder, configurable, members) -> dict[int, float]:
    graph = made.graph(configurable, [[((), (), ())] * len(configurable)])
    facts = ProgramFacts(TensorGraph.of(graph))
    return LoopNests(Library(facts)).times(members)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (WIDE, 6),  # six tiles of 64 columns, and each reads all channels
        ((1, 4, 4, 64), 1),  # one tile
        ((1, 16, 16, 384), 1),  # what lies between is too large to be computed inside
    ],
)
def test_a_convolution_is_computed_for_each_tile_of_the_next(shape, wanted):
    made, nodes = chain(shape=shape)
    members = [nodes[name] for name in ("first", "between", "second", "after", "pooled")]
    found = times_of(made, [nodes["first"], nodes["second"]], members)
    assert found[nodes["first"]] == wanted
    assert found[nodes["second"]] == found[nodes["pooled"]] == 1


def test_by_itself_everything_is_computed_once():
    made, nodes = chain()
    for name in ("first", "between", "second", "after", "pooled"):
        assert times_of(made, list(nodes.values())[:1], [nodes[name]]) == {nodes[name]: 1.0}


def test_rows_at_the_edges_of_tiles_are_computed_twice():
    made = Builder()
    shape = (1, 64, 64, 64)  # 16,384 elements in four rows: tiles of eight rows
    image, weights = made.add("parameter", shape), made.add("parameter", (3, 3, 64, 64))
    above = made.add("tanh", shape, image)
    convolved = made.convolution(shape, above, weights)
    made.features[convolved][FEATURE_NAMES.index("window_size_product")] = 9
    below = made.add("tanh", shape, convolved)
    found = times_of(made, [convolved], [above, convolved, below])
    assert found[below] == found[convolved] == 1
    assert found[above] == pytest.approx((8 - 1 + 3) / 8)


def test_a_reshape_that_moves_sizes_is_written_first():
    made = Builder()
    x = made.add("parameter", (64, 1024))
    first = made.add("tanh", (64, 1024), x)
    turned = made.add("reshape", (128, 512), first)
    last = made.add("tanh", (128, 512), turned)
    found = times_of(made, [made.add("dot", (64, 64), x, x)], [first, turned, last])
    assert set(found.values()) == {1.0}


sizes = st.integers(1, 4096)


@given(rows=sizes, columns=sizes, summed=st.integers(1, 10_000))
def test_tiles_are_parts_of_a_product(rows, columns, summed):
    own_rows, own_columns = tile(rows, columns, summed)
    assert 1 <= own_rows <= rows and 1 <= own_columns <= columns
    assert own_rows * own_columns <= 4 * LARGEST_AREA


def test_tiles_of_known_products():
    assert tile(4, 384, 3456) == (4, 64)
    assert tile(64, 2048, 256) == (64, 256)
    assert tile(64, 1024, 1024) == (64, 64)
    assert tile(8, 16, 16) == (8, 16)
