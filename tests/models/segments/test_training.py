"""Training on whole graphs: what a step is, that it learns, and that a kill changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lib.cache.codec import decode_layouts
from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.models.segments.training import EmbeddingTable, TableFold
from lib.runs.memory import memory_errors
from lib.settings import MODELS
from lib.training.fold import load_fold
from tests.builders import COLLECTION, cache_of, cached_graph
from tests.training_loop import Training, assert_same_bits

SIZES = {"a": (5, 3), "b": (4, 1)}
WIDTH = 2


def table() -> EmbeddingTable:
    return EmbeddingTable(SIZES, WIDTH)


def write(made: EmbeddingTable, name: str, places: list[int], segment: int, value: float) -> None:
    rows = np.array(places)
    made.write(name, rows, segment, np.full((len(rows), WIDTH), value, np.float32))


def test_what_was_written_is_read():
    made = table()
    write(made, "a", [0, 4], 2, 1.5)
    write(made, "b", [3], 0, 7.0)
    known, embeddings = made.read("a", np.array([4, 1]))
    assert known.tolist() == [[False, False, True], [False, False, False]]
    assert embeddings[0].tolist() == [[0, 0], [0, 0], [1.5, 1.5]]
    assert made.read("b", np.array([3]))[1].tolist() == [[[7.0, 7.0]]]


def test_a_state_is_taken_back():
    made, other = table(), table()
    write(made, "a", [1], 0, 3.0)
    other.restore({name: tensor.clone() for name, tensor in made.state().items()})
    assert np.array_equal(other.known, made.known)
    assert np.array_equal(other.embeddings, made.embeddings)


TINY = {"epochs": 4, "configurations": 8, "inference_configurations": 8, "folds_total": 2}
OWN = {
    "gst": {"channels": 8, "heads": 2, "segment_nodes": 4, "trained_segments": 1},
    "gat": {"channels": 8, "heads": 2},
    "partitioning": {"channels": 8, "heads": 2, "trained_nodes": 5},
    "pooling": {},
}


def settings_of(model: str, **overrides):
    return MODELS["layout"][model](COLLECTION, **{**TINY, **OWN[model], **overrides})


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Cache:
    """Ten graphs whose runtime is, but for a constant, the sum of their cells' first digits."""
    graphs = []
    for seed in range(10):
        graph = cached_graph(seed, name=f"g{seed}", configurations=24)
        digits = decode_layouts(graph.dictionary[graph.cells])[..., 0].astype(np.int64)
        graphs.append(replace(graph, runtime=1000 + digits.sum(axis=1)))
    return cache_of(tmp_path_factory.mktemp("cache"), graphs)


def training(cache: Cache, model: str, state: Path, **overrides) -> Training:
    return Training(load_fold(cache, 0, settings_of(model, **overrides)), 0, state, "a")


def finished(cache: Cache, model: str, state: Path, **overrides) -> Training:
    made = training(cache, model, state, **overrides)
    list(made.run())
    return made


@pytest.mark.parametrize(("model", "rate"), [("gst", 0.01), ("partitioning", 0.04)])
def test_it_learns(cache, model, rate, tmp_path):
    epochs = 20 if model == "gst" else 10
    made = finished(cache, model, tmp_path / "state", epochs=epochs, learning_rate=rate)
    first, last = made.checkpoint.history[0]["loss"], made.checkpoint.history[-1]["loss"]
    assert last < 0.75 * first
    made.data.valid = made.data.train
    made.network.eval()
    graphs = made.data.validate(made.network)
    assert np.mean([metrics["tau"] for metrics in graphs.values()]) > 0.3


@pytest.mark.parametrize("model", OWN)
def test_gradients_reach_every_parameter(cache, model, tmp_path):
    options = {"trained_segments": 3} if model == "gst" else {}
    made = finished(cache, model, tmp_path / "state", epochs=1, **options)
    assert all(p.grad.abs().max() > 0 for p in made.network.parameters() if p.ndim > 1)


def test_killed_and_resumed_without_a_table_gst_ends_with_the_same_bits(cache, tmp_path):
    """With it: ``tests/test_stage2_kill.py``; all models: ``tests/training/test_devices.py``."""
    options = {"history": False}
    undisturbed = finished(cache, "gst", tmp_path / "a", **options)
    rows = training(cache, "gst", tmp_path / "b", save_seconds=0.0, **options).run()
    for _ in range(3):
        next(rows)
    rows.close()
    resumed = finished(cache, "gst", tmp_path / "b", **options)
    assert resumed.checkpoint.resumed_at > 0
    assert_same_bits(resumed, undisturbed)


def test_the_table_is_read_instead_of_computing(cache, tmp_path):
    made = training(cache, "gst", tmp_path / "state")
    fold, rows = made.data, np.arange(6)
    graph = fold.read(fold.train[0]).prepared
    counts = []
    for _ in range(3):
        batch = fold.segments(graph, rows, np.random.default_rng(0))
        scores = made.network(batch)
        counts.append([(part.number, part.trained) for part in batch.computed])
        fold.after_step()
    assert [len(found) for found in counts] == [len(graph), 1, 1]
    assert [sum(trained for _, trained in found) for found in counts] == [1, 1, 1]
    # The network has not changed, so what it remembers is what it would compute.
    fold.table = None
    everything = fold.segments(graph, rows, np.random.default_rng(0))
    torch.testing.assert_close(scores, made.network(everything))
    more = TableFold(fold.train, [], settings_of("gst"), cache)
    batch = more.segments(graph, np.arange(3), np.random.default_rng(1))
    made.network(batch)
    more.after_step()
    batch = more.segments(graph, np.arange(5), np.random.default_rng(2))
    made.network(batch)  # of the second round only new configurations are computed
    computed = {part.number: part.places.tolist() for part in batch.computed if not part.trained}
    assert all(places == [3, 4] for places in computed.values())


def test_segment_dropout_keeps_the_expected_sum(cache):
    fold = load_fold(cache, 0, settings_of("gst", segment_dropout=0.5, trained_segments=1))
    graph, rows = fold.read(fold.train[0]).prepared, np.arange(4)
    generator, count = np.random.default_rng(0), 1000
    weights = np.zeros(len(graph))
    for _ in range(count):
        batch = fold.segments(graph, rows, generator)
        for part in batch.segments:
            weights[part.number] += part.weight / count
    np.testing.assert_allclose(weights, 1, atol=0.08)


def test_a_table_that_is_too_large_is_refused(cache, monkeypatch):
    monkeypatch.setattr("lib.models.segments.training.free_memory", lambda: 1000)
    with pytest.raises(UserError, match=r"segments take .* half of what is free; use --no-hist"):
        load_fold(cache, 0, settings_of("gst"))


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_out_of_memory_is_told_in_one_line(error):
    with (
        pytest.raises(UserError, match=r"^out of memory: a step of gat, .* were free; use MODEL=g"),
        memory_errors("a step of gat", "use MODEL=gst", torch.device("meta")),
    ):
        raise error


def test_other_errors_pass():
    with (
        pytest.raises(RuntimeError, match="shape"),
        memory_errors("a", "b", torch.device("meta")),
    ):
        raise RuntimeError("shape mismatch")
