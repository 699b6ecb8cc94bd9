"""Orders against arrays that are really laid out in them."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lib.compiler.orders import common_run, same_in_memory, squeezed, strides

SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)


def memory(shape, order) -> np.ndarray:
    """Logical positions of a tensor's elements, in the order in which they lie in memory."""
    return np.arange(prod(shape)).reshape(shape).transpose(order[::-1]).ravel()


def orders_of(shape):
    return st.permutations(range(len(shape))).map(tuple)


@st.composite
def laid_out(draw):
    shape = draw(SHAPES)
    return shape, draw(orders_of(shape)), draw(orders_of(shape))


@given(laid_out())
def test_strides_squeezing_and_runs(given_one):
    shape, one, other = given_one
    places = np.argsort(memory(shape, one)).reshape(shape)
    for dimension, distance in enumerate(strides(one, shape)):
        if shape[dimension] > 1:
            assert (np.diff(places, axis=dimension) == distance).all()
    same = np.array_equal(memory(shape, one), memory(shape, other))
    assert same == same_in_memory(one, other, shape)
    run = common_run(squeezed(one, shape), squeezed(other, shape), shape)
    a, b = memory(shape, one).reshape(-1, run), memory(shape, other).reshape(-1, run)
    assert {tuple(row) for row in a.tolist()} == {tuple(row) for row in b.tolist()}
