"""Networks made for what they are given to read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from lib.files.named import named
from lib.models.common.build import network_for
from lib.models.common.input import input_of
from lib.settings import MODELS, Settings, settings_for
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS
from tests.builders import CPU_LAYOUTS, cached_graph
from tests.kernels import cached_kernel

COLLECTIONS = {"layout": LAYOUT_COLLECTIONS[0], "tile": "tile-xla", "programs": "programs-cpu"}


def settings_of(kind: str, model: str) -> Settings:
    hardware = MODELS[kind][model].hardware_of[0]
    dataset = dataclasses.replace(CPU_LAYOUTS, hardware=hardware)
    return settings_for(COLLECTIONS[kind], dataset, {"model": model})


@pytest.mark.parametrize(
    ("kind", "model"), [(k, m) for k, models in MODELS.items() for m in models]
)
def test_a_model_has_its_network_and_what_its_scores_need(kind, model):
    settings = settings_of(kind, model)
    assert type(network_for(settings)) is named(settings.network)
    permuted = getattr(settings, "permutations", 1) > 1  # scores depend on the batch
    assert (input_of(settings).groupings is not None) == permuted


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (kind, name)
        for kind, models in MODELS.items()
        for name, model in models.items()
        if input_of(model).scores is not None
    ],
)
def test_some_configurations_are_scored_as_all_are(kind, model):
    """In one batch, for where configurations attend to each other it counts who shares one."""
    settings = settings_of(kind, model)
    seen = input_of(settings)
    graph = cached_kernel("k", 3) if kind == "tile" else cached_graph(3, configurations=24)
    prepared, count = seen.prepare(graph, settings), len(graph.runtime)
    torch.manual_seed(0)
    network = network_for(settings).eval()
    rows = np.arange(count)
    whole = seen.scores(network, prepared, count, rows)
    assert whole.shape == (count,)
    turned = seen.scores(network, prepared, count, rows[::-1])
    assert np.allclose(turned[::-1], whole, rtol=1e-4, atol=1e-5)
    some = rows[1::3]
    if seen.groupings is None:
        found = seen.scores(network, prepared, 4, some)
        assert np.allclose(found, whole[some], rtol=1e-4, atol=1e-5)
    else:
        with torch.inference_mode():
            expected = network(prepared.batch(some)).numpy()
        assert np.allclose(seen.scores(network, prepared, count, some), expected, atol=1e-5)
