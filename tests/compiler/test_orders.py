"""Orders against arrays that are really laid out in them."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.compiler.orders import bitcast_order, common_run, row_major, squeezed, strides

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
@settings(deadline=None)
def test_strides_squeezing_and_runs(given_one):
    shape, one, other = given_one
    places = np.argsort(memory(shape, one)).reshape(shape)
    for dimension, distance in enumerate(strides(one, shape)):
        if shape[dimension] > 1:
            assert (np.diff(places, axis=dimension) == distance).all()
    same = np.array_equal(memory(shape, one), memory(shape, other))
    assert same == (squeezed(one, shape) == squeezed(other, shape))
    run = common_run(squeezed(one, shape), squeezed(other, shape), shape)
    a, b = memory(shape, one).reshape(-1, run), memory(shape, other).reshape(-1, run)
    assert {tuple(row) for row in a.tolist()} == {tuple(row) for row in b.tolist()}


@given(st.lists(st.sampled_from([1, 2, 3, 4, 5]), min_size=1, max_size=5), st.data())
@settings(deadline=None, max_examples=200)
def test_a_bitcast_moves_nothing_and_is_found_if_there_is_one(factors, data):
    """Both shapes are products of neighbouring factors, so that most reshapes have an answer."""
    shape, to = (_joined(factors, data) for _ in range(2))
    order = data.draw(orders_of(shape))
    result = bitcast_order(order, shape, to)
    lies = memory(shape, order)
    if result is None:
        assert not any(
            np.array_equal(memory(to, one), lies) for one in permutations(range(len(to)))
        )
    else:
        assert np.array_equal(memory(to, result), lies)


def _joined(factors, data) -> list[int]:
    """Neighbours multiplied at places that are drawn."""
    cuts = data.draw(st.lists(st.booleans(), min_size=len(factors) - 1, max_size=len(factors) - 1))
    shape = [factors[0]]
    for factor, cut in zip(factors[1:], cuts, strict=True):
        if cut:
            shape.append(factor)
        else:
            shape[-1] *= factor
    return shape


@given(SHAPES)
def test_row_major_stays_row_major(shape):
    to = [prod(shape)]
    assert bitcast_order(row_major(len(shape)), shape, to) == (0,)
    back = bitcast_order((0,), to, shape)
    assert squeezed(back, shape) == squeezed(row_major(len(shape)), shape)


@pytest.mark.parametrize("to", [(3, 4), (4, 3)])
def test_a_column_major_matrix_cannot_be_cut_otherwise(to):
    assert bitcast_order((0, 1), (6, 2), to) is None
