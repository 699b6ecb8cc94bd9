"""Properties of the two searches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lib.tpugraphs import drawing

RANK = st.sampled_from([0, 2, 3, 4, 5, 6])
RANKS = st.lists(st.tuples(RANK, RANK, RANK).filter(any), min_size=1, max_size=8)
SEED = st.integers(0, 2**32)


def assert_valid(configuration: np.ndarray, ranks) -> None:
    """Each slot is a permutation of its rank's dimensions padded with -1, or only -1."""
    assert configuration.dtype == np.int8
    assert configuration.shape == (len(ranks), 3, 6)
    for site, choices in enumerate(ranks):
        for slot, rank in enumerate(choices):
            row = configuration[site, slot].tolist()
            free = row == [-1] * 6
            assert free or (sorted(row[:rank]) == list(range(rank)) and set(row[rank:]) <= {-1})
            assert rank or free


@given(RANKS, SEED)
def test_random_configurations_are_valid(ranks, seed):
    rng = np.random.default_rng(seed)
    for _ in range(4):
        assert_valid(drawing.random_configuration(ranks, rng), ranks)


@given(RANKS, SEED, st.integers(0, 12), st.integers(1, 8))
def test_children_are_valid_new_and_distinct(ranks, seed, parents, size):
    rng = np.random.default_rng(seed)
    population = [drawing.random_configuration(ranks, rng) for _ in range(parents)]
    runtimes = rng.random(parents).tolist()
    children = drawing.next_generation(population, runtimes, size, ranks, rng)
    assert len(children) <= size
    for child in children:
        assert_valid(child, ranks)
    made = {child.tobytes() for child in children}
    assert len(made) == len(children)
    assert not made & {one.tobytes() for one in population}


def test_an_exhausted_space_ends_the_search():
    ranks = [(2, 0, 0)]  # three configurations in all
    rng = np.random.default_rng(0)
    population = [drawing.unconstrained(ranks)]
    children = drawing.next_generation(population, [1.0], 8, ranks, rng)
    assert len(children) == 2


def test_the_same_seed_gives_the_same_children():
    ranks = [(4, 4, 4), (2, 2, 2)]
    both = [drawing.next_generation([], [], 8, ranks, np.random.default_rng(7)) for _ in range(2)]
    assert np.array_equal(*map(np.stack, both))
