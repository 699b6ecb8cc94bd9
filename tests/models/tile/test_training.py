"""What a step of tile training sees, which kernels a fold has, and epochs that are not whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.files.errors import UserError
from lib.models.common.build import build_network
from lib.models.tile.inputs import kernel_batch, kernel_scores
from lib.ranking.folds import assign_folds
from lib.ranking.metrics import tile_metrics
from lib.training.fold import load_fold, new_network
from lib.training.loop import FoldTraining
from lib.training.loss import pairwise_hinge
from tests.kernels import cached_kernel, tiny_settings

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
    with CacheWriter(folder, "tile") as writer:
        for kernel in kernels:
            writer.add(kernel, {})
        writer.finish({"fingerprint": "0", "settings": {}})
    return Cache(folder)


@pytest.mark.parametrize("fold", range(4))
def test_a_fold_and_the_rest(cache, fold):
    data = load_fold(cache, fold, SETTINGS)
    assigned = assign_folds([*COUNTS, "same"], 4, 0)
    assert data.valid == sorted(n for n in (*COUNTS, "same") if assigned[n] == fold)
    assert data.train == sorted(n for n in COUNTS if assigned[n] != fold)


def test_no_such_fold(cache):
    with pytest.raises(UserError, match="--fold 4"):
        load_fold(cache, 4, SETTINGS)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"runtime": np.full(40, 7), "normalizer": np.full(40, 5)}, r"all folds: b \(all its con"),
        ({"config_feat": np.zeros((40, 24), np.float32)}, "configurations are the same.*: b$"),
    ],
)
def test_a_fold_without_kernels_to_learn_from(tmp_path, changed, told):
    with CacheWriter(tmp_path, "tile") as writer:
        writer.add(cached_kernel("a"), {})
        writer.add(replace(cached_kernel("b"), **changed), {})
        writer.finish({"fingerprint": "0", "settings": {}})
    fold = assign_folds(["a", "b"], 2, 0)["a"]  # which is validated on a
    with pytest.raises(UserError, match=told):
        load_fold(Cache(tmp_path), fold, tiny_settings(folds_total=2))


def test_a_pass_has_every_kernel_once_and_new_configurations(cache):
    data = load_fold(cache, 0, SETTINGS)
    seen = []
    generator = np.random.default_rng(0)
    for _ in range(2):
        samples = list(data.samples(generator))
        assert len(samples) == data.steps() == -(-len(data.train) // 3)
        groups = [len(sample.runtimes) for sample in samples]
        assert max(groups) <= min(groups) + 1
        assert sum(groups) == len(data.train)
        sizes = sorted(len(targets) for sample in samples for targets in sample.runtimes)
        assert sizes == sorted(min(8, COUNTS[name]) for name in data.train)
        for sample in samples:
            assert sample.size == len(sample.inputs.kernel) == len(sample.inputs.configurations)
            assert len(sample.inputs.graph.kernels) == len(sample.runtimes) + 1
        seen.append({tuple(t.tolist()) for sample in samples for t in sample.runtimes})
    assert len(seen[0] & seen[1]) < len(data.train)  # the large ones were drawn anew


def test_targets_belong_to_their_configurations(cache):
    data = load_fold(cache, 0, SETTINGS)
    known = {
        (row.tobytes(), float(target))
        for name in data.train
        for row, target in zip(cache.graph(name).config_feat, cache.graph(name).target, strict=True)
    }
    for sample in data.samples(np.random.default_rng(0)):
        targets = torch.cat(sample.runtimes).tolist()
        rows = sample.inputs.configurations.numpy()
        assert {(r.tobytes(), t) for r, t in zip(rows, targets, strict=True)} <= known


def test_the_loss_is_the_mean_over_kernels(cache):
    data = load_fold(cache, 0, SETTINGS)
    sample = next(data.samples(np.random.default_rng(0)))
    scores = torch.randn(sample.size)
    parts = [scores[sample.inputs.kernel == i] for i in range(len(sample.runtimes))]
    losses = [pairwise_hinge(s, t) for s, t in zip(parts, sample.runtimes, strict=True)]
    torch.testing.assert_close(sample.loss(scores), sum(losses) / len(losses))


def test_a_target_is_the_runtime_over_its_normalizer():
    kernel = replace(
        cached_kernel(configurations=3),
        runtime=np.array([10, 10, 30]),
        normalizer=np.array([5, 4, 10]),
    )
    assert kernel.target.tolist() == [2.0, 2.5, 3.0]
    assert replace(kernel, normalizer=np.zeros(3, np.int64)).target.tolist() == [10, 10, 30]


def test_standardization_sees_the_training_kernels_only(cache):
    data = load_fold(cache, 0, SETTINGS)
    network = build_network(SETTINGS)
    data.standardize(network)
    batch = kernel_batch([cache.graph(name) for name in data.train])
    standardized = network.kernel.standardize(batch.features)
    torch.testing.assert_close(standardized.mean(0), torch.zeros(134), atol=1e-4, rtol=0)
    varied = batch.features.std(0) > 0
    torch.testing.assert_close(
        standardized.std(0, correction=0)[varied], torch.ones(int(varied.sum()))
    )


def training(cache, **overrides) -> FoldTraining:
    settings = tiny_settings(**{"folds_total": 4, "configurations": 8, **overrides})
    data = load_fold(cache, 0, settings)
    network = new_network(lambda: build_network(settings), data, settings.seed, 0)
    return FoldTraining(network, data, 0)


@pytest.mark.parametrize(
    ("epochs", "rows", "steps"),
    [(2.5, [1.0, 2.0, 2.5], 5), (2.0, [1.0, 2.0], 4), (0.5, [0.5], 1), (0.1, [0.1], 1)],
)
def test_epochs_need_not_be_whole(cache, tmp_path, monkeypatch, epochs, rows, steps):
    taken = []
    real = FoldTraining.step
    monkeypatch.setattr(FoldTraining, "step", lambda s, *x: taken.append(x) or real(s, *x))
    made = training(cache, epochs=epochs, kernels=4)  # six or so kernels: two steps a pass
    assert made.steps_per_epoch == 2
    list(made.run(tmp_path / "state", "a"))
    assert len(taken) == steps
    history = made.state.history_frame()
    assert history["epoch"].to_list() == rows
    assert "validation_tile_score" in history.columns
    assert history["learning_rate"][-1] < made.settings.learning_rate or steps == 1
    assert made.state.validations["last"]["epoch"] == rows[-1]


@pytest.mark.parametrize("epochs", [1, 2])
def test_interrupted_and_resumed(cache, tmp_path, epochs):
    whole = training(cache)
    list(whole.run(tmp_path / "whole", "a"))
    run = training(cache, save_seconds=0.0).run(tmp_path / "state", "a")
    for _ in range(epochs + 1):  # the state of an epoch is saved when the next one is asked for
        next(run)
    run.close()
    resumed = training(cache)
    assert [row["epoch"] for row in resumed.run(tmp_path / "state", "a")] == [1.0, 2.0, 2.5]
    assert resumed.state.resumed_at == epochs
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, resumed.network.state_dict()[name]), name
    assert resumed.state.validations["last"] == whole.state.validations["last"]


def test_validation_is_the_tile_score_of_each_kernel(cache, tmp_path):
    made = training(cache)
    list(made.run(tmp_path / "state", "a"))
    made.network.eval()
    assert set(made.state.validations["last"]["graphs"]) == set(made.data.valid)
    for name, score in made.state.validations["last"]["graphs"].items():
        kernel = cache.graph(name)
        found = tile_metrics(kernel_scores(made.network, kernel, 8192), kernel.target)
        assert score == pytest.approx(found["tile_score"])


def test_a_network_that_diverged_has_no_validation(cache):
    made = training(cache, epochs=1.0)
    with torch.no_grad():
        made.network.out.bias.fill_(float("nan"))
    assert made.data.validate(made.network) == {}
