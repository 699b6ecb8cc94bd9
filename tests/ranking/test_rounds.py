"""Labels and ceilings of repeated timings."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lib.ranking.rounds import ceiling, label

ROUNDS = st.tuples(st.integers(1, 6), st.integers(2, 40)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(1, 10**9))
)


@given(ROUNDS)
def test_a_label_is_the_mean_of_the_faster_half(rounds):
    labels = label(rounds)
    assert labels.dtype == np.int64
    for one, own in zip(labels.tolist(), rounds.tolist(), strict=True):
        faster = sorted(own)[: len(own) // 2]
        assert one == sum(faster) // len(faster)


def test_a_single_round_is_the_label():
    assert label(np.array([[7], [9]])).tolist() == [7, 9]


@given(ROUNDS, st.integers(1, 5), st.randoms())
def test_order_and_unused_rounds_do_not_matter(rounds, unused, shuffler):
    order = list(range(rounds.shape[1]))
    shuffler.shuffle(order)
    padded = np.pad(rounds[:, order], ((0, 0), (0, unused)))
    assert np.array_equal(label(padded), label(rounds))


def test_one_lucky_round_and_a_busy_neighbour_hardly_matter():
    rounds = np.full((2, 40), 100_000)
    rounds[0, 7] = 50_000  # a burst of the clock
    rounds[:, 20:] = 150_000  # a busy neighbour
    assert label(rounds).tolist() == [97_500, 100_000]


def test_each_configuration_has_the_faster_half_of_its_own_rounds():
    rounds = np.arange(1, 41)[None] * np.ones((2, 1), np.int64)
    rounds[1, 4:] = 0
    assert label(rounds).tolist() == [10, 1]


def test_ceiling_compares_even_with_odd_rounds():
    same = np.array([[1, 1], [2, 2], [3, 3]])
    assert ceiling(same) == 1.0
    opposite = np.array([[1, 3], [2, 2], [3, 1]])
    assert ceiling(opposite) == -1.0
    assert ceiling(np.array([[1, 2]])) == 0.0
