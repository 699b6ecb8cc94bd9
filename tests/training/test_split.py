"""Graphs of other collections that a fold learns from as well: which, and what nobody may see."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.models.tgraph.settings import TGraphSettings
from lib.models.tgraph_plus.settings import TGraphPlusSettings
from lib.ranking.folds import assign_folds, family
from lib.runs.identity import Run
from lib.settings.base import NONE
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS
from lib.training.fold import load_fold
from lib.training.split import of_other_collections, sides_of
from tests.builders import cache_of, cached_graph

OWN, OTHER, THIRD = LAYOUT_COLLECTIONS[:3]
K = 3


def plus(also: str, together: str = "family", kind: type = TGraphPlusSettings):
    more = {"pretraining": 0} if kind is TGraphPlusSettings else {}
    return kind(OWN, also=also, folds_total=K, keep_together=together, **more)


def write_cache(outputs: Path, collection: str, names: dict[str, str]) -> Cache:
    """A cache of some graphs, whose splits are given."""
    named = enumerate(sorted(names.items()))
    graphs = (cached_graph(number, name=name, split=split) for number, (name, split) in named)
    return cache_of(outputs / TGraphPlusSettings(collection).cache, graphs, fingerprint=collection)


def names_of(families: int, variants: int, test: int, first: int = 0) -> dict[str, str]:
    """Graphs of some families, the last ``test`` of which are in the test split."""
    return {
        f"f{first + number}.v{variant}": "test" if number >= families - test else "train"
        for number in range(families)
        for variant in range(variants)
    }


@given(
    shift=st.integers(0, 4),
    families=st.integers(K + 1, 6),
    tests=st.tuples(st.integers(0, 1), st.integers(0, 1)),
)
@settings(deadline=None, max_examples=12)
@pytest.mark.parametrize("together", ["graph", "family"])
def test_nothing_that_is_held_out_is_learned_from(
    tmp_path_factory, together, shift, families, tests
):
    outputs = tmp_path_factory.mktemp("outputs")
    own = write_cache(outputs, OWN, names_of(families, 2, tests[0]))
    other = write_cache(outputs, OTHER, names_of(families, 2, tests[1], first=shift))
    part = family if together == "family" else str
    chosen = plus(OTHER, together)
    unseen: set[str] = set()
    for fold in range(K):
        beside = {graph.name for graph in of_other_collections(own, fold, chosen)}
        valid = {graph.name for graph in sides_of(own, fold, chosen)[1]}
        held, tested = {part(name) for name in valid}, set(own.names("test"))
        assert not {part(name) for name in beside} & held
        assert not beside & (tested | set(other.names("test")))
        deal = assign_folds(other.names("train", "valid"), K, 0, together)
        assert not any(deal[name] == fold for name in beside)
        # and nothing else is left out
        rest = {name for name, k in deal.items() if k != fold and part(name) not in held}
        assert beside == rest - tested
        unseen |= set(deal) - beside
    assert unseen == set(other.names("train", "valid")), "each is left out by some fold"


@pytest.mark.parametrize("kind", [TGraphSettings, TGraphPlusSettings])
def test_they_come_last_and_are_told_of(tmp_path, kind):
    own = write_cache(tmp_path, OWN, names_of(4, 2, 0))
    write_cache(tmp_path, OTHER, names_of(4, 1, 0, first=10))
    write_cache(tmp_path, THIRD, names_of(4, 1, 0, first=20))
    both = plus(f"{OTHER},{THIRD}", kind=kind)
    alone, more = load_fold(own, 0, plus(NONE, kind=kind)), load_fold(own, 0, both)
    assert [one.name for one in more.train][: len(alone.train)] == [g.name for g in alone.train]
    assert [one.name for one in more.valid] == [one.name for one in alone.valid]
    added = [one.name for one in more.train][len(alone.train) :]
    assert {name[1] for name in added} == {"1", "2"} and len(added) == 4
    assert Run(tmp_path, plus(NONE, kind=kind)).data_of_training == {"data": OWN}
    told = {"data": OWN, "other_data": {OTHER: OTHER, THIRD: THIRD}}
    assert Run(tmp_path, both).data_of_training == told


def test_a_collection_of_fewer_families_than_folds_is_learned_from_whole(tmp_path):
    own = write_cache(tmp_path, OWN, names_of(4, 2, 0))
    write_cache(tmp_path, OTHER, {"f10.a": "train", "f10.b": "valid", "f10.c": "test"})
    for fold in range(K):
        beside = of_other_collections(own, fold, plus(OTHER))
        assert [graph.name for graph in beside] == ["f10.a", "f10.b"]


def test_a_cache_that_is_not_there_is_named(tmp_path):
    own = write_cache(tmp_path, OWN, names_of(4, 2, 0))
    with pytest.raises(UserError, match=OTHER):
        load_fold(own, 0, plus(OTHER))
