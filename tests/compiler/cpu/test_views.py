"""What is seen of a tensor through transposes and reshapes, against numpy's own."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lib.compiler.cpu.views import View
from lib.compiler.orders import strides


@st.composite
def regrouped(draw, primes):
    """A shape whose dimensions are products of neighbouring ones of ``primes``."""
    shape, group = [], 1
    for prime in primes:
        group *= prime
        if draw(st.booleans()):
            shape.append(group)
            group = 1
    return (*shape, group) if group > 1 or not shape or draw(st.booleans()) else tuple(shape)


@st.composite
def paths(draw):
    """The shape and order of a tensor, and steps from it: permutations, and shapes."""
    primes = draw(st.lists(st.sampled_from([2, 2, 3, 5]), max_size=5))
    shape = first = draw(regrouped(primes))
    order, steps = tuple(draw(st.permutations(range(len(shape))))), []
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            steps.append(("transpose", tuple(draw(st.permutations(range(len(shape)))))))
            shape = tuple(shape[d] for d in steps[-1][1])
        else:
            rest, factors = list(shape), []
            for size in rest:
                factors += [f for f in (2, 3, 5) for _ in range(_power(size, f))]
            shape = draw(regrouped(factors))
            steps.append(("reshape", shape))
    return first, order, steps, draw(st.permutations(range(len(shape))))


def _power(size, factor):
    power = 0
    while size % factor == 0:
        size, power = size // factor, power + 1
    return power


def seen_by_numpy(shape, order, steps):
    """Where in memory each element of the path's end lies: an array of its shape."""
    jumps = strides(order, shape)
    places = np.zeros(shape, np.int64)
    for d, size in enumerate(shape):
        places += (
            np.arange(size).reshape([-1 if k == d else 1 for k in range(len(shape))]) * (jumps[d])
        )
    for kind, value in steps:
        places = places.transpose(value) if kind == "transpose" else places.reshape(value)
    return places


def view_of(shape, steps):
    shapes = [shape]
    for kind, value in steps:
        now = shapes[-1]
        shapes.append(tuple(now[d] for d in value) if kind == "transpose" else value)
    view = View.whole(shapes[-1])
    for before, (kind, value) in zip(shapes[-2::-1], reversed(steps), strict=True):
        view = view.transposed(value) if kind == "transpose" else view.reshaped(before)
        if view is None:
            return None
    return view


@given(paths())
def test_parts_lie_where_the_elements_do(path):
    shape, order, steps, written = path
    view, places = view_of(shape, steps), seen_by_numpy(shape, order, steps)
    if view is None:
        return
    assert prod(view.sizes) == prod(shape)
    lies, end = view.orders(order, tuple(written))
    assert sorted(lies) == sorted(end) == list(range(len(view.sizes)))
    in_parts = seen_by_numpy(view.sizes, lies, [])
    assert (in_parts.ravel() == places.ravel()).all(), "the end's dimensions, major to minor"
    of_end = seen_by_numpy(places.shape, tuple(written), [])
    assert (seen_by_numpy(view.sizes, end, []).ravel() == of_end.ravel()).all()
