"""Compact syntax trees against ones that were written out by hand."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.programs.tensorir.tree import (
    LEAF,
    Forest,
    fault,
    loop_nests,
    positions,
)
from tests.programs.tensorir.trees import bodies, joined, tree

# A convolution with its initial store, and a ReLU in the same outer loop; then a copy.
#   for (0): for (1): 0 (2)     the initial store, a constant
#            for (3): for (4): x (5)
#            x (6)
#   for (7): x (8)
FUSED = [[["0"], [["x"]], "x"], ["x"]]


def serialized(one: Forest) -> np.ndarray:
    """The sequence of a tree: nodes' numbers, and -1 after each leaf."""
    pairs = ([node, -1] if kind == LEAF else [node] for node, kind in enumerate(one.kind))
    return np.array([*chain.from_iterable(pairs)])


def test_positions_are_where_leaves_with_features_stand():
    assert positions(tree(FUSED)).tolist() == [6, 8, 11]


def test_loop_nests_go_from_the_outside_in():
    assert list(loop_nests(tree(FUSED))) == [[0, 3, 4], [0], [7]]


def test_rows_need_not_be_in_the_order_of_leaves():
    swapped = tree(FUSED)
    swapped.row[[5, 6]] = swapped.row[[6, 5]]
    assert positions(swapped).tolist() == [8, 6, 11]
    assert list(loop_nests(swapped)) == [[0], [0, 3, 4], [7]]


@given(st.lists(bodies, min_size=1, max_size=4))
def test_every_tree_of_a_forest_keeps_its_order(forest_bodies):
    trees = [tree(one) for one in forest_bodies]
    forest = joined(trees)
    assert fault(forest) is None
    assert positions(forest).tolist() == [p for t in trees for p in positions(t).tolist()]
    for k, one in enumerate(trees):
        sequence = serialized(forest.tree(k))
        np.testing.assert_array_equal(sequence, serialized(one))
        assert sequence[sequence != -1].tolist() == list(range(one.nodes))
        np.testing.assert_array_equal(sequence[positions(one)], one.leaves)


BROKEN = {
    "a node below a leaf": ("depth", 3, 3, "depth", "no loop"),
    "a node two levels deeper": ("depth", 1, 2, "depth", "no loop"),
    "an unknown kind": ("kind", 3, 9, "kind", "number"),
    "a loop at the end": ("kind", 8, 0, "kind", "without a body"),
    "a loop of no iteration": ("extent", 0, 0, "extent", "below 1"),
    "two leaves of one row": ("row", 5, 1, "row", "once each"),
    "a loop with features": ("row", 0, 3, "row", "loop with features"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_arrays_that_are_no_trees_are_told(name):
    column, node, value, at, what = BROKEN[name]
    one = tree(FUSED)
    getattr(one, column)[node] = value
    found = fault(one)
    assert found is not None and found[0] == at and what in found[1]
