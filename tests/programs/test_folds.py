"""Which programs a fold learns from: nothing that is held out is learned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.files.errors import UserError
from lib.programs.folds import held_out_by, sides_of_fold
from lib.ranking.folds import folds_of
from tests.programs.builders import tiny_settings, write_programs

NETWORKS = st.sets(st.sampled_from([f"net{k}.w8" for k in range(6)]), max_size=3)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_programs(tmp_path_factory.mktemp("sides"), tasks=15, programs=30)


def test_one_network_alone_cannot_be_dealt():
    with pytest.raises(UserError, match=r"net1 is the only one .* --split random"):
        held_out_by({"t1": ["net1"], "t2": ["net1"]}, 0, tiny_settings())


@given(called=st.lists(NETWORKS, min_size=8, max_size=20), seed=st.integers(0, 99))
def test_a_task_of_a_network_that_is_held_out_is_not_learned(called, seed):
    called = {f"t{k}": sorted(own) for k, own in enumerate(called)}
    called |= {"alone": ["a"], "other": ["b"]}
    chosen = tiny_settings(folds_total=2, seed=seed)
    networks = {network for own in called.values() for network in own or ["none"]}
    folds = folds_of(networks - {"none"} | {t for t, own in called.items() if not own}, chosen)
    for fold in range(2):
        held = held_out_by(called, fold, chosen)
        learned = {network for task, own in called.items() if task not in held for network in own}
        assert held and all(folds[network] != fold for network in learned)
        for task in held:
            assert any(folds[network] == fold for network in called[task] or [task])


def test_networks_of_the_test_are_the_sources(cache):
    for fold in range(2):
        sides = sides_of_fold(cache, fold, tiny_settings())
        assert list(sides["test"]) == cache.names("test")
        assert set(sides["train"]) | set(sides["valid"]) == set(cache.names("train"))
        assert not set(sides["train"]) & set(sides["valid"])
        assert all(own.all() for chosen in sides.values() for own in chosen.values())


def test_random_sides_are_eight_to_one_to_one(cache):
    sides = sides_of_fold(cache, 1, tiny_settings(split="random"))
    counts = {side: sum(own.sum() for own in chosen.values()) for side, chosen in sides.items()}
    total = sum(counts.values())
    assert total == 59 * len(cache.names("train"))  # pairs of 30 programs
    assert counts["valid"] / total == pytest.approx(0.1, abs=0.02)
    assert counts["test"] / total == pytest.approx(0.1, abs=0.02)
    for name in cache.names("train"):
        together = sum(sides[side].get(name, np.zeros(59, bool)).astype(int) for side in sides)
        assert (together == 1).all()


def test_random_sides_never_part_equal_programs(cache):
    for fold in range(2):
        sides = sides_of_fold(cache, fold, tiny_settings(split="random"))
        for chosen in sides.values():  # the first and the last, on the devices of either
            assert all(own[0] == own[1] == own[-1] for own in chosen.values())
