"""What a step of tile training sees, which kernels a fold has, and epochs that are not whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.models.tile.inputs import kernel_scores
from lib.ranking.folds import assign_folds
from lib.ranking.metrics import tile_metrics
from lib.training.fold import Batch, load_fold
from tests.builders import cache_of
from tests.kernels import cached_kernel, tiny_settings
from tests.training_loop import Training

SETTINGS = tiny_settings(folds_total=4, configurations=8)
COUNTS = {f"k{i}": count for i, count in enumerate((2, 3, 8, 9, 40, 40, 40, 1200))}


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Cache:
    folder = tmp_path_factory.mktemp("cache")
    kernels = [cached_kernel(n, i, configurations=c) for i, (n, c) in enumerate(COUNTS.items())]
    like = cached_kernel("x", 3)
    rows = np.zeros_like(like.config_feat)
    kernels += [
        replace(like, name="flat", runtime=np.full(40, 7), normalizer=np.full(40, 5)),
        replace(like, name="same", config_feat=rows),
        replace(like, name="unlabelled", runtime=np.zeros(40, np.int64)),
        cached_kernel("single", configurations=1),
        cached_kernel("test", split="test"),
    ]
    return cache_of(folder, kernels, "tile")


@pytest.mark.parametrize("fold", range(4))
def test_a_fold_and_the_rest(cache, fold):
    data = load_fold(cache, fold, SETTINGS)
    assigned = assign_folds([*COUNTS, "same"], 4, 0)
    assert data.valid == sorted(n for n in (*COUNTS, "same") if assigned[n] == fold)
    assert data.train == sorted(n for n in COUNTS if assigned[n] != fold)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"runtime": np.full(40, 7), "normalizer": np.full(40, 5)}, r"all folds: b \(all its con"),
        ({"config_feat": np.zeros((40, 24), np.float32)}, "configurations are the same.*: b$"),
    ],
)
def test_a_fold_without_kernels_to_learn_from(tmp_path, changed, told):
    kernels = cached_kernel("a"), replace(cached_kernel("b"), **changed)
    cache = cache_of(tmp_path, kernels, "tile")
    fold = assign_folds(["a", "b"], 2, 0)["a"]  # which is validated on a
    with pytest.raises(UserError, match=told):
        load_fold(cache, fold, tiny_settings(folds_total=2))


def batches_of(data, generator: np.random.Generator) -> list[Batch]:
    """A pass over the training kernels."""
    return [data.draw(group, generator, 0.0) for group in data.groups(generator)]


def test_a_pass_has_every_kernel_once_and_new_configurations(cache):
    data = load_fold(cache, 0, SETTINGS)
    seen = []
    generator = np.random.default_rng(0)
    for _ in range(2):
        batches = batches_of(data, generator)
        assert len(batches) == data.steps() == -(-len(data.train) // 3)
        groups = [len(batch.runtimes) for batch in batches]
        assert max(groups) <= min(groups) + 1
        assert sum(groups) == len(data.train)
        sizes = sorted(len(targets) for batch in batches for targets in batch.runtimes)
        assert sizes == sorted(min(8, COUNTS[name]) for name in data.train)
        for batch in batches:
            assert batch.size == len(batch.inputs.kernel) == len(batch.inputs.configurations)
            assert len(batch.inputs.graph.kernels) == len(batch.runtimes) + 1
        seen.append({tuple(t.tolist()) for batch in batches for t in batch.runtimes})
    assert len(seen[0] & seen[1]) < len(data.train)  # the large ones were drawn anew


def test_targets_belong_to_their_configurations(cache):
    data = load_fold(cache, 0, SETTINGS)
    known = {
        (row.tobytes(), float(target))
        for name in data.train
        for row, target in zip(cache.graph(name).config_feat, cache.graph(name).target, strict=True)
    }
    for batch in batches_of(data, np.random.default_rng(0)):
        targets = torch.cat(batch.runtimes).tolist()
        rows = batch.inputs.configurations.numpy()
        assert {(r.tobytes(), t) for r, t in zip(rows, targets, strict=True)} <= known


def training(cache, file, **overrides) -> Training:
    settings = tiny_settings(**{"folds_total": 4, "configurations": 8, **overrides})
    return Training(load_fold(cache, 0, settings), 0, file, "a")


@pytest.mark.parametrize(
    ("epochs", "rows", "steps"),
    [(2.5, [1.0, 2.0, 2.5], 5), (2.0, [1.0, 2.0], 4), (0.5, [0.5], 1), (0.1, [0.1], 1)],
)
def test_epochs_need_not_be_whole(cache, tmp_path, epochs, rows, steps):
    made, taken = training(cache, tmp_path / "state", epochs=epochs, kernels=4), []
    assert made.data.steps() == 2  # six or so kernels
    made.data.after_step = lambda: taken.append(1)
    list(made.run())
    assert len(taken) == steps
    history = made.checkpoint.history_frame()
    assert history["epoch"].to_list() == rows
    assert "validation_tile_score" in history.columns
    assert history["learning_rate"][-1] < made.data.settings.learning_rate or steps == 1
    assert made.checkpoint.validations["last"]["epoch"] == rows[-1]


def test_validation_is_the_tile_score_of_each_kernel(cache, tmp_path):
    made = training(cache, tmp_path / "state")
    list(made.run())
    made.network.eval()
    graphs = made.checkpoint.validations["last"]["graphs"]
    assert set(graphs) == set(made.data.valid)
    for name, score in graphs.items():
        kernel = cache.graph(name)
        rows = np.arange(len(kernel.runtime))
        found = tile_metrics(kernel_scores(made.network, kernel, 8192, rows), kernel.target)
        assert score == pytest.approx(found["tile_score"])
    with torch.no_grad():
        made.network.out.bias.fill_(float("nan"))
    assert made.data.validate(made.network) == {}, "it diverged"
