"""Networks that are drawn: what is drawn, how they are sized, and that all can be built."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.collect.xla.zoo.drawn import drawing
from lib.collect.xla.zoo.drawn.drawing import Drawing, largest_within


@given(st.integers(0, 2**32 - 1))
def test_a_seed_draws_the_same_again(seed):
    one, other = Drawing(seed), Drawing(seed)
    assert one.train == other.train
    for _ in range(3):
        assert one.pick(*"abc") == other.pick(*"abc")
        assert one.between(1, 4) == other.between(1, 4)
        number = one.number(2, 4)
        assert number == other.number(2, 4) and 2 <= number <= 4


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=20), st.floats(0.05, 20))
def test_the_largest_that_fits_or_the_smallest(seconds, wanted):
    sizes = [lambda one=one: one for one in sorted(seconds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "estimated_seconds", lambda network, mode: network)
        found = largest_within(sizes, "forward", wanted)
    fitting = [one for one in seconds if one <= wanted]
    assert found == (max(fitting) if fitting else min(seconds))


@pytest.fixture(scope="module")
def programs():
    """All of both sources."""
    pytest.importorskip("flax", reason="needs flax, see lib/collect/xla/requirements.txt")
    from lib.collect.xla.zoo.drawn import drawn_programs

    return [*drawn_programs("xla"), *drawn_programs("nlp")]


def test_there_are_enough_of_many_families(programs):
    names = [one.name for one in programs]
    assert len(names) == len(set(names)) >= 300
    for source in ("xla", "nlp"):
        families = {one.family for one in programs if one.source == source}
        assert len(families) > 10


def test_each_family_can_be_built_and_traced(programs):
    import jax

    for one in programs[:12] + programs[-11:]:
        function, arguments = one.build()
        assert jax.eval_shape(function, *arguments) is not None


def test_a_program_is_the_same_wherever_it_is_built(programs):
    import jax

    (_, first), (_, again) = programs[5].build(), programs[5].build()
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
