"""Training: it learns, it repeats itself bit by bit, and an interruption changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from lib.cache.codec import decode_layouts
from lib.files import tensor_file
from lib.files.errors import UserError
from lib.models.tgraph.inputs import graph_tensors, score_in_batches
from lib.ranking.metrics import mean_metrics, ranking_metrics
from lib.runs.stage import stage_script
from lib.training import checkpoint as checkpoints
from lib.training.checkpoint import Checkpoint
from lib.training.fold import Fold
from lib.training.schedule import learning_rate
from lib.training.split import LabelledGraph
from tests.builders import cached_graph, tiny_settings
from tests.training_loop import Training, assert_same_bits

EACH_EPOCH = {"save_seconds": 0.0}
FOLD = 1


def labelled(seed: int) -> LabelledGraph:
    """A graph whose runtime is, but for a constant, the sum of its cells' first digits."""
    graph = cached_graph(seed, name=f"g{seed}", configurations=24)
    digits = decode_layouts(graph.dictionary[graph.cells])[..., 0].astype(np.int64)
    return LabelledGraph(graph.name, graph_tensors(graph), 1000 + digits.sum(axis=1))


@pytest.fixture(scope="module")
def data() -> Fold:
    graphs = [[labelled(i) for i in numbers] for numbers in (range(4), (8, 9))]
    return Fold(*graphs, tiny_settings())


def training(data: Fold, file: Path, dropout: float = 0.0, identity="a", **overrides) -> Training:
    made = Training(replace(data, settings=tiny_settings(**overrides)), FOLD, file, identity)
    if dropout:
        made.network.second.register_forward_hook(
            lambda module, _, found: nn.functional.dropout(found, dropout, module.training)
        )
    return made


def finished(data: Fold, file: Path, **options) -> Training:
    made = training(data, file, **options)
    list(made.run())
    return made


def interrupted(data: Fold, file: Path, epochs: int, **options) -> None:
    """Train so many epochs, as a run that is killed after they were saved."""
    rows = training(data, file, **options, **EACH_EPOCH).run()
    for _ in range(epochs + 1):  # the state of an epoch is saved when the next one is asked for
        next(rows)
    rows.close()


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory) -> Training:
    return finished(data, tmp_path_factory.mktemp("undisturbed") / "state.safetensors")


def test_two_runs_give_the_same_bits_and_another_seed_gives_others(data, tmp_path, undisturbed):
    torch.manual_seed(123)  # what others did to the global generator does not matter
    assert_same_bits(finished(data, tmp_path / "state"), undisturbed)
    other = finished(data, tmp_path / "other", seed=1)
    assert not torch.equal(other.network.out.weight, undisturbed.network.out.weight)


@pytest.mark.parametrize(
    ("epochs", "options"),
    [(3, {}), (2, {"optimizer": "adam", "dropout": 0.5})],
)
def test_interrupted_and_resumed(data, tmp_path, undisturbed, epochs, options):
    whole = finished(data, tmp_path / "whole", **options) if options else undisturbed
    interrupted(data, tmp_path / "state", epochs, **options)
    torch.manual_seed(7)  # another process has another generator
    second = training(data, tmp_path / "state", **options)
    assert [row["epoch"] for row in second.run()] == [1, 2, 3, 4]
    assert second.checkpoint.resumed_at == epochs
    assert_same_bits(second, whole)
    losses = whole.checkpoint.history_frame()["loss"]
    assert losses[-1] < losses[0]
    if options:
        assert not torch.equal(whole.network.out.weight, undisturbed.network.out.weight)


def test_another_schedule(data, tmp_path):
    made = finished(data, tmp_path / "state", schedule="cyclic")
    s, steps = made.data.settings, len(data.train)
    last = range(steps - 1, 4 * steps, steps)
    expected = [learning_rate(k, 4 * steps, s.learning_rate, s.warmup, "cyclic") for k in last]
    assert made.checkpoint.history_frame()["learning_rate"].to_list() == expected


def test_generators_of_every_gpu_are_seeded_by_epoch_as_well(data, tmp_path, monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    finished(data, tmp_path / "one")
    assert len(set(seeds)) == len(seeds) == 1 + 4  # the weights' and the epochs', all different
    first = seeds.copy()
    seeds.clear()
    finished(data, tmp_path / "two")
    assert seeds == first


@pytest.mark.parametrize("changed", ["nothing", "versions", "loops", "products"])
def test_what_something_else_computed_is_not_resumed(data, tmp_path, changed, monkeypatch):
    interrupted(data, tmp_path / "state", 1, channels=64)
    made = training(data, tmp_path / "none", channels=64)
    if changed == "versions":
        monkeypatch.setattr(checkpoints, "versions", lambda: {"torch": "another"})
    elif changed == "loops":
        if not made.network.shares():
            pytest.skip("no compiled loops here")
        made.network.uses_native = False
    elif changed == "products":
        one = made.network.precision == torch.float32
        made.network.precision = torch.bfloat16 if one else torch.float32
    found = Checkpoint(tmp_path / "state", made.network, made.optimizer, made.data, "a")
    assert found.resumed_at == (1 if changed == "nothing" else 0)


def test_a_finished_state_is_not_trained_again(data, tmp_path, undisturbed):
    finished(data, tmp_path / "state", **EACH_EPOCH)
    again = training(data, tmp_path / "state")
    again.data.groups = lambda generator: pytest.fail("trained again")
    assert len(list(again.run())) == 4
    assert_same_bits(again, undisturbed)


@pytest.mark.parametrize("kept", [{"identity": "b"}, None])
def test_a_state_of_another_training_or_kind_is_ignored(data, tmp_path, undisturbed, kept):
    state = tmp_path / "state.safetensors"
    interrupted(data, state, 2)
    tensors, metadata = tensor_file.load(state)
    tensor_file.save(state, tensors, metadata | kept if kept else {})
    again = finished(data, state)
    assert again.checkpoint.resumed_at == 0
    assert_same_bits(again, undisturbed)


@pytest.mark.parametrize("content", [b"\x80\x04garbage", b""])
def test_a_damaged_state_is_ignored(data, tmp_path, content):
    state = tmp_path / "state.safetensors"
    state.write_bytes(content)
    assert training(data, state).checkpoint.resumed_at == 0


def test_saving_waits_for_its_interval(data, tmp_path):
    made = finished(data, tmp_path / "state.safetensors")
    assert made.data.settings.save_seconds > 1
    assert not (tmp_path / "state.safetensors").exists()


def test_it_learns(data, tmp_path):
    history = finished(data, tmp_path / "state", epochs=20, learning_rate=1e-2).checkpoint.history
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]


def test_rows_of_history(data, tmp_path):
    history = finished(data, tmp_path / "state", validate_every=3).checkpoint.history
    validated = [row["epoch"] for row in history if "validation_tau" in row]
    assert validated == [3, 4]  # every third and the last
    for row in history:
        assert row["gradient_norm"] > 0
        assert row["configurations_per_second"] > 0
    assert history[-1]["learning_rate"] < history[1]["learning_rate"]


def test_the_best_epochs_weights_are_kept(data, tmp_path):
    done = finished(data, tmp_path / "state", epochs=6)
    taus = [row["validation_tau"] for row in done.checkpoint.history]
    best, last = (done.checkpoint.validations[name] for name in ("best", "last"))
    assert (best["tau"], best["epoch"]) == (max(taus), 1 + taus.index(max(taus)))
    assert (last["tau"], last["epoch"]) == (taus[-1], 6)
    done.network.load_state_dict(done.checkpoint.best_weights)
    done.network.eval()
    rows = {}
    for graph in data.valid:
        order = np.arange(len(graph.runtime))
        scores = score_in_batches(done.network, graph.prepared, order, 8)
        rows[graph.name] = ranking_metrics(scores, graph.runtime)
    assert mean_metrics(list(rows.values()))["tau"] == best["tau"]
    assert best["graphs"] == {name: row["tau"] for name, row in rows.items()}


def test_every_epoch_draws_anew(data, tmp_path):
    made, drawn = training(data, tmp_path / "state", epochs=3), []
    draw = made.data.draw

    def watched(*arguments):
        batch = draw(*arguments)
        drawn.append(tuple(batch.runtimes[0].tolist()))
        return batch

    made.data.draw = watched
    list(made.run())
    assert len(set(drawn)) == len(drawn) == 3 * len(data.train)


def test_weight_decay_spares_biases_and_temperatures(data, tmp_path):
    made = training(data, tmp_path / "state")
    decayed, spared = made.checkpoint.optimizer.param_groups
    names = {id(p): name for name, p in made.network.named_parameters()}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (1e-5, 0)
    assert all(names[id(p)].endswith("weight") for p in decayed["params"])
    assert all(names[id(p)].endswith(("bias", "temperature")) for p in spared["params"])
    assert len(decayed["params"]) + len(spared["params"]) == len(names)


def test_gradients_are_clipped(data, tmp_path, monkeypatch):
    norms = []
    real = torch.nn.utils.clip_grad_norm_

    def watched(parameters, limit):
        parameters = list(parameters)
        norm = real(parameters, limit)
        after = [p.grad.norm() for p in parameters if p.grad is not None]
        norms.append(torch.stack(after).norm().item())
        return norm

    monkeypatch.setattr(stage_script("train").nn.utils, "clip_grad_norm_", watched)
    finished(data, tmp_path / "state", epochs=1, gradient_clip=0.01)
    assert norms == pytest.approx([0.01] * 4, rel=1e-3)


def test_a_fold_that_diverges_between_validations_has_none(data, tmp_path):
    made = training(data, tmp_path / "state", epochs=4, validate_every=2)
    rows = made.run()
    next(rows), next(rows)
    assert made.checkpoint.validations["last"]
    with torch.no_grad():
        for weights in made.network.parameters():
            weights.fill_(float("nan"))
    assert len(list(rows)) == 1
    with pytest.raises(UserError, match="fold 1 diverged"):
        made.checkpoint.validation(FOLD)
    assert made.checkpoint.validations["best"]
