"""The GST thesis' models on kernels: what a step is, that they learn, that a kill is harmless."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.models.common.build import build_network
from lib.models.tile.inputs import kernel_batch
from lib.ranking.metrics import tile_metrics
from lib.settings import MODELS
from lib.training.fold import load_fold, new_network
from lib.training.loop import FoldTraining
from tests.kernels import COLLECTION, cached_kernel

OWN = {
    "gst": {"channels": 8, "heads": 2, "segment_nodes": 3},
    "gat": {"channels": 8, "heads": 2},
    "partitioning": {"channels": 8, "heads": 2, "trained_nodes": 3},
    "pooling": {},
}
TINY = {"epochs": 4.0, "configurations": 16, "folds_total": 2}


def settings_of(model: str, **overrides):
    return MODELS["tile"][model](COLLECTION, **{**TINY, **OWN[model], **overrides})


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Cache:
    folder = tmp_path_factory.mktemp("cache")
    with CacheWriter(folder, "tile") as writer:
        for seed in range(8):
            writer.add(cached_kernel(f"k{seed}", seed), {})
        writer.finish({"fingerprint": "x", "settings": {}})
    return Cache(folder)


def finished(cache: Cache, model: str, state: Path, epochs_run: int = 10**6, **overrides):
    chosen = settings_of(model, **overrides)
    data = load_fold(cache, 0, chosen)
    made = FoldTraining(new_network(lambda: build_network(chosen), data, 0, 0), data, 0)
    for row in made.run(state, "a"):
        if row["epoch"] >= epochs_run:
            break
    return made


def test_sides_and_targets_are_those_of_the_tile_network(cache):
    data = load_fold(cache, 1, settings_of("gat"))
    other = load_fold(cache, 1, MODELS["tile"]["tile"](COLLECTION, **TINY))
    assert (data.train, data.valid) == (other.train, other.valid)
    name = data.train[0]
    assert np.array_equal(data.read(name).runtime, cache.graph(name).target)
    sample = next(data.samples(np.random.default_rng(0)))
    assert sample.size == 16


def test_standardization_sees_the_training_kernels_only(cache):
    data = load_fold(cache, 0, settings_of("gat"))
    network = build_network(data.settings)
    data.standardize(network)
    batch = kernel_batch([cache.graph(name) for name in data.train])
    tiles = torch.cat([torch.from_numpy(cache.graph(n).config_feat.copy()) for n in data.train])
    seen = (network.inputs.standardize, batch.features), (network.inputs.tiles, tiles)
    for standardize, rows in seen:
        found = standardize(rows)
        torch.testing.assert_close(found.mean(0), torch.zeros(rows.shape[1]), atol=1e-4, rtol=0)
        varied = rows.std(0) > 0
        deviations = found.std(0, correction=0)[varied]
        torch.testing.assert_close(deviations, torch.ones(int(varied.sum())))


@pytest.mark.parametrize("model", OWN)
def test_it_learns(cache, model, tmp_path):
    made = finished(cache, model, tmp_path / "state", epochs=30.0, learning_rate=2e-2)
    losses = [row["loss"] for row in made.state.history]
    assert losses[-1] < 0.85 * losses[0]
    graphs = made.data.validate(made.network.eval())
    assert set(graphs) == set(made.data.valid)
    assert all(
        set(found) == set(tile_metrics(np.arange(3), np.arange(1, 4))) for found in graphs.values()
    )


@pytest.mark.parametrize("model", OWN)
def test_a_step_keeps_gradients_where_the_model_says(cache, model):
    data = load_fold(cache, 0, settings_of(model))
    data.step.table = None
    sample = next(data.samples(np.random.default_rng(0)))
    parts = list(sample.inputs.segments)
    trained = [part for part in parts if part.trained]
    assert len(parts) == (3 if model == "gst" else 1)  # of 8 nodes, three at a time
    assert len(trained) == 1
    assert (trained[0].nodes is not None) == (model == "partitioning")
    if model == "partitioning":
        assert len(trained[0].nodes) == 3


@pytest.mark.parametrize("model", OWN)
def test_killed_and_resumed_it_ends_with_the_same_bits(cache, model, tmp_path, monkeypatch):
    undisturbed = finished(cache, model, tmp_path / "a" / "state")
    clock = iter(range(0, 100_000, 25))  # every second epoch is saved
    now = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr("lib.training.checkpoint.time", now)
    state = tmp_path / "b" / "state"
    finished(cache, model, state, epochs_run=3, save_seconds=30.0)
    resumed = finished(cache, model, state)
    assert 0 < resumed.state.resumed_at < 3
    for name, tensor in undisturbed.network.state_dict().items():
        assert torch.equal(tensor, resumed.network.state_dict()[name]), name
