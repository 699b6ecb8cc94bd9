"""Loops around leaves as rows of numbers, against walks through the trees."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lib.programs.tensorir.nests import ABSENT, INNERMOST, SUMS, WIDTH, nests
from lib.programs.tensorir.tree import loop_nests
from tests.programs.tensorir.trees import bodies, joined, tree


def row_of(one, loops: list[int]) -> list[float]:
    """The numbers of one leaf, one by one; ``loops`` are outermost first."""
    inner = loops[::-1]
    extents = [float(np.log2(one.extent[node])) for node in inner]
    kinds = [float(one.kind[node]) for node in inner]
    lacking = [ABSENT] * max(0, INNERMOST - len(inner))
    products = [sum(extents[:count]) for count in SUMS]
    return [
        *extents[:INNERMOST],
        *lacking,
        *kinds[:INNERMOST],
        *lacking,
        len(inner),
        sum(extents[INNERMOST:]),
        *products,
    ]


@given(shapes=st.lists(bodies, min_size=1, max_size=4))
def test_every_leaf_has_the_loops_around_it(shapes):
    trees = [tree(one) for one in shapes]
    expected = [row_of(one, loops) for one in trees for loops in loop_nests(one)]
    found = nests(joined(trees))
    assert found.shape == (len(expected), WIDTH) and found.dtype == np.float16
    if expected:
        np.testing.assert_allclose(found, np.array(expected), rtol=1e-2, atol=1e-2)
