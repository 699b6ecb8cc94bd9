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


@given(ROUNDS, st.integers(1, 5), st.randoms())
def test_order_and_unused_rounds_do_not_matter(rounds, unused, shuffler):
    order = list(range(rounds.shape[1]))
    shuffler.shuffle(order)
    padded = np.pad(rounds[:, order], ((0, 0), (0, unused)))
    assert np.array_equal(label(padded), label(rounds))


def test_ceiling_compares_even_with_odd_rounds():
    same = np.array([[1, 1], [2, 2], [3, 3]])
    assert ceiling(same) == 1.0
    opposite = np.array([[1, 3], [2, 2], [3, 1]])
    assert ceiling(opposite) == -1.0
    assert ceiling(np.array([[1, 2]])) == 0.0
