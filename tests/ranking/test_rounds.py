"""Labels and ceilings of repeated timings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lib.ranking.rounds import MANY, ceiling, label

ROUNDS = st.tuples(st.integers(1, 6), st.integers(2, 40)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(1, 10**9))
)


@given(ROUNDS)
def test_a_label_lies_between_the_minimum_and_the_median(rounds):
    labels = label(rounds)
    assert labels.dtype == np.int64
    assert (labels >= rounds.min(1)).all()
    assert (labels <= np.median(rounds, 1)).all()
    if rounds.shape[1] < MANY:
        assert np.array_equal(labels, rounds.min(1))


@given(ROUNDS, st.integers(1, 5), st.randoms())
def test_order_and_unused_rounds_do_not_matter(rounds, unused, shuffler):
    order = list(range(rounds.shape[1]))
    shuffler.shuffle(order)
    padded = np.pad(rounds[:, order], ((0, 0), (0, unused)))
    assert np.array_equal(label(padded), label(rounds))


def test_one_lucky_round_among_many_does_not_decide():
    rounds = np.full((2, 40), 100)
    rounds[0, 7] = 50  # a burst of the clock
    rounds[:, 20:] = 150  # a busy neighbour
    assert label(rounds).tolist() == [100, 100]


def test_all_configurations_are_labelled_alike():
    rounds = np.arange(1, 41)[None] * np.ones((2, 1), np.int64)
    rounds[1, MANY - 1 :] = 0
    assert label(rounds).tolist() == [1, 1]


def test_ceiling_compares_even_with_odd_rounds():
    same = np.array([[1, 1], [2, 2], [3, 3]])
    assert ceiling(same) == 1.0
    opposite = np.array([[1, 3], [2, 2], [3, 1]])
    assert ceiling(opposite) == -1.0
    assert ceiling(np.array([[1, 2]])) == 0.0


def test_the_halves_are_labelled_as_the_whole_is():
    """By minima of the halves, which have fewer than ``MANY`` rounds, one lucky round decides."""
    generator = np.random.default_rng(0)
    true = np.sort(generator.uniform(1e6, 2e6, 30))
    rounds = (true[:, None] * generator.uniform(1, 1.01, (30, 22))).astype(int)
    rounds[::2, 3] //= 3
    assert ceiling(rounds) == pytest.approx(ceiling(np.delete(rounds, [2, 3], 1)), abs=0.1)
