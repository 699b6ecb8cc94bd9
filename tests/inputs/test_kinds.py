"""Networks made for what they are given to read."""

from __future__ import annotations

import pytest

from lib.compiler.features import COPY_FEATURES, OFF_LAYOUT_FEATURES
from lib.inputs.kinds import INPUTS, network_for
from lib.models import NETWORKS
from lib.settings import BUNDLED_VALUES, MODELS, settings_for

COLLECTIONS = {"layout": next(iter(BUNDLED_VALUES)), "tile": "tile-xla"}


@pytest.mark.parametrize(
    ("kind", "model"), [(k, m) for k, models in MODELS.items() for m in models]
)
def test_every_model_has_its_network(kind, model):
    settings = settings_for(COLLECTIONS[kind], True, {"model": model})
    assert type(network_for(settings)) is NETWORKS[kind][model]


@pytest.mark.parametrize(
    ("kind", "model"), [(k, m) for k, models in MODELS.items() for m in models]
)
def test_permutations_are_for_networks_whose_scores_depend_on_the_batch(kind, model):
    chosen = MODELS[kind][model]
    assert (INPUTS[chosen.input].groupings is not None) == (chosen.permutations > 1)


def test_learned_costs_are_as_wide_as_the_features_of_copies():
    network = network_for(settings_for(COLLECTIONS["layout"], True, {"model": "tgraph-plus"}))
    assert len(network.inputs.copies.mean) == len(COPY_FEATURES["cpu"])
    assert len(network.inputs.off_layout.mean) == len(OFF_LAYOUT_FEATURES["cpu"])
