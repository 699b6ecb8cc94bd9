"""What is searched of each model: valid settings all, the defaults among them."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lib.settings import COLLECTIONS, MODELS, settings_for
from lib.settings.base import wanted_range
from lib.settings.file import read_settings, write_settings
from lib.settings.search import Search, space_of
from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tune.__main__ import distributions, name_of
from tests.builders import CPU_LAYOUTS, tiny_settings

EVERY = [
    settings_for(collection, dataset, {"model": model})
    for collection, kind in COLLECTIONS.items()
    for model in MODELS[kind]
    for dataset in (TPUGRAPHS, CPU_LAYOUTS)
    if dataset.hardware in MODELS[kind][model].hardware_of and model != "prices"  # solved for
]
NAMES = [f"{one.collection}-{one.model}-{one.epochs}" for one in EVERY]


def drawn(search: Search, whole: bool) -> st.SearchStrategy:
    """What a search may give."""
    if search.values:
        return st.sampled_from(search.values)
    if whole:
        return st.integers(int(search.low), int(search.high))
    return st.floats(search.low, search.high)


@st.composite
def points(draw):
    """Settings as they are, and values of all that is searched of them."""
    chosen = draw(st.sampled_from(EVERY))
    space = space_of(chosen)
    whole = {name: isinstance(getattr(chosen, name), int) for name in space}
    return chosen, {name: draw(drawn(one, whole[name])) for name, one in space.items()}


@hypothesis_settings(max_examples=50, deadline=None)
@given(points())
def test_every_point_of_every_models_space_is_valid(tmp_path_factory, made):
    chosen, values = made
    found = dataclasses.replace(chosen, **values)
    found.check()  # how they go together
    fields = {one.name: one for one in dataclasses.fields(chosen)}
    for name, value in values.items():
        assert not wanted_range(fields[name], value)
        assert getattr(found, name) == value
        assert type(value) is type(fields[name].default)
    path = tmp_path_factory.getbasetemp() / "point.toml"
    write_settings(path, values)
    assert read_settings(path, chosen.collection, type(chosen)) == values


@pytest.mark.parametrize("chosen", EVERY, ids=NAMES)
def test_settings_as_they_are_are_in_the_space(chosen):
    space = space_of(chosen)
    made = distributions(chosen, space)
    assert {"learning_rate", "weight_decay", "warmup"} <= set(made)
    for name, one in made.items():
        value = getattr(chosen, name)
        assert one._contains(one.to_internal_repr(value)), name
    if "dropout" in {one.name for one in dataclasses.fields(chosen)}:
        assert "dropout" in made
    if chosen.model != "pooling":
        assert made.keys() & {"channels", "layers", "blocks"}


def test_a_search_is_called_by_all_that_its_values_depend_on():
    chosen = tiny_settings()
    space = space_of(chosen)

    def name(settings=chosen, space=space, data="d", folds=1):
        return name_of(settings, space, data, folds)

    assert name() == name(tiny_settings(save_seconds=1.0))
    others = [
        name(tiny_settings(epochs=5)),
        name(tiny_settings(seed=1)),
        name(space=space_of(chosen, {"channels"})),
        name(data="e"),
        name(folds=2),
    ]
    assert len({name(), *others}) == 6
