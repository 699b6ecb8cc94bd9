"""Folds are a pure function of names, K and seed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.errors import UserError
from lib.folds import assign_folds

NAMES = st.lists(st.text(max_size=8), min_size=2, max_size=40, unique=True)


@given(NAMES, st.data())
@settings(max_examples=60, deadline=None)
def test_every_name_in_one_fold_of_even_size(names, data):
    k = data.draw(st.integers(2, len(names)))
    seed = data.draw(st.integers(0, 2**32))
    folds = assign_folds(names, k, seed)
    assert set(folds) == set(names)
    sizes = Counter(folds.values())
    assert set(sizes) == set(range(k))
    assert max(sizes.values()) - min(sizes.values()) <= 1
    shuffled = data.draw(st.permutations(names))
    assert assign_folds([*shuffled, shuffled[0]], k, seed) == folds


def test_the_same_on_every_machine_and_in_every_version():
    folds = assign_folds([f"graph_{index}.v1" for index in range(6)], 3, 0)
    assert [folds[f"graph_{index}.v1"] for index in range(6)] == [0, 0, 2, 1, 1, 2]


def test_another_seed_deals_otherwise():
    names = [str(index) for index in range(50)]
    assert assign_folds(names, 5, 0) != assign_folds(names, 5, 1)


@pytest.mark.parametrize("k", [-1, 0, 1, 4])
def test_too_few_graphs_or_folds(k):
    with pytest.raises(UserError, match=f"folds_total={k}"):
        assign_folds(["a", "b", "c", "c"], k, 0)
