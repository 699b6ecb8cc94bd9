"""Training: it learns, it repeats itself bit by bit, and an interruption changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lib.cache.codec import decode_layouts
from lib.files import tensor_file
from lib.files.errors import UserError
from lib.models.tgraph.inputs import graph_tensors, score_in_batches
from lib.ranking.metrics import mean_metrics, ranking_metrics
from lib.training import checkpoint as checkpoints
from lib.training.checkpoint import Checkpoint
from lib.training.fold import Fold, new_network
from lib.training.loop import Training, stage_script
from lib.training.schedule import learning_rate
from lib.training.split import LabelledGraph
from tests.builders import cached_graph, tiny_settings

TIMES = ("seconds", "validation_seconds", "configurations_per_second")
EACH_EPOCH = {"save_seconds": 0.0}


def labelled(seed: int) -> LabelledGraph:
    """A graph whose runtime is, but for a constant, the sum of its cells' first digits."""
    graph = cached_graph(seed, name=f"g{seed}", configurations=24)
    digits = decode_layouts(graph.dictionary[graph.cells])[..., 0].astype(np.int64)
    return LabelledGraph(graph.name, graph_tensors(graph), 1000 + digits.sum(axis=1))


@pytest.fixture(scope="module")
def data() -> Fold:
    graphs = [[labelled(i) for i in numbers] for numbers in (range(4), (8, 9))]
    return Fold(*graphs, tiny_settings())


class Trained(Training):
    """A training whose checkpoint is opened when it runs."""

    def __init__(self, data: Fold, dropout: float = 0.0):
        self.data, self.fold = data, 1
        self.network = new_network(data, data.settings.seed, 1)
        if dropout:  # which none of the paper's networks has
            self.network.second.register_forward_hook(
                lambda module, _, found: nn.functional.dropout(found, dropout, module.training)
            )

    def run(self, file, identity="a"):
        self.checkpoint = Checkpoint(file, self.network, self.data, identity)
        yield from super().run()


def training(data: Fold, dropout: float = 0.0, **overrides) -> Trained:
    return Trained(replace(data, settings=tiny_settings(**overrides)), dropout)


def finished(data: Fold, state, identity="a", **overrides) -> Trained:
    made = training(data, **overrides)
    list(made.run(state, identity))
    return made


def interrupted(data: Fold, state, epochs: int, **overrides) -> None:
    """Train so many epochs, as a run that is killed after they were saved."""
    rows = training(data, **overrides, **EACH_EPOCH).run(state)
    for _ in range(epochs + 1):  # the state of an epoch is saved when the next one is asked for
        next(rows)
    rows.close()


def plain(history: list[dict]) -> list[dict]:
    return [{k: v for k, v in row.items() if k not in TIMES} for row in history]


def assert_same_bits(one: Trained, other: Trained) -> None:
    for a, b in (
        (one.network.state_dict(), other.network.state_dict()),
        (one.checkpoint.best_weights, other.checkpoint.best_weights),
    ):
        assert a.keys() == b.keys()
        for name in a:
            assert a[name].dtype == b[name].dtype
            assert torch.equal(a[name], b[name]), name
    assert plain(one.checkpoint.history) == plain(other.checkpoint.history)
    assert one.checkpoint.epochs == other.checkpoint.epochs
    assert one.checkpoint.validations == other.checkpoint.validations


@pytest.fixture
def undisturbed(data, tmp_path) -> Trained:
    return finished(data, tmp_path / "undisturbed.safetensors")


def test_two_runs_give_the_same_bits(data, tmp_path, undisturbed):
    torch.manual_seed(123)  # what others did to the global generator does not matter
    assert_same_bits(finished(data, tmp_path / "state"), undisturbed)


@pytest.mark.parametrize("change", [{"seed": 1}, {"learning_rate": 2e-3}, {"configurations": 5}])
def test_another_setting_gives_other_weights(data, tmp_path, undisturbed, change):
    other = finished(data, tmp_path / "state", **change)
    assert not torch.equal(other.network.out.weight, undisturbed.network.out.weight)


def test_another_fold_starts_from_other_weights(data):
    one, other = (new_network(data, 0, fold) for fold in (0, 1))
    assert not torch.equal(one.first.weight, other.first.weight)


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_interrupted_and_resumed(data, tmp_path, undisturbed, epochs):
    state = tmp_path / "state.safetensors"
    interrupted(data, state, epochs)
    second = training(data)
    rows = list(second.run(state))
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert second.checkpoint.resumed_at == epochs
    assert_same_bits(second, undisturbed)


def test_another_optimizer_is_resumed_as_well_and_goes_another_way(data, tmp_path, undisturbed):
    own = {"optimizer": "adam"}
    whole = finished(data, tmp_path / "whole", **own)
    losses = whole.checkpoint.history_frame()["loss"]
    assert losses[-1] < losses[0]
    assert not torch.equal(whole.network.out.weight, undisturbed.network.out.weight)
    interrupted(data, tmp_path / "state", 2, **own)
    resumed = finished(data, tmp_path / "state", **own)
    assert resumed.checkpoint.resumed_at == 2
    assert_same_bits(resumed, whole)


def test_another_schedule(data, tmp_path):
    schedule = "cyclic"
    made = finished(data, tmp_path / "state", schedule=schedule)
    s, steps = made.data.settings, len(data.train)
    last = range(steps - 1, 4 * steps, steps)
    expected = [learning_rate(k, 4 * steps, s.learning_rate, s.warmup, schedule) for k in last]
    assert made.checkpoint.history_frame()["learning_rate"].to_list() == expected


def test_what_dropout_leaves_out_is_the_epochs_own(data, tmp_path):
    undisturbed = finished(data, tmp_path / "undisturbed", dropout=0.5)
    interrupted(data, tmp_path / "state", 2, dropout=0.5)
    torch.manual_seed(7)  # another process has another generator
    resumed = finished(data, tmp_path / "state", dropout=0.5)
    assert resumed.checkpoint.resumed_at == 2
    assert_same_bits(resumed, undisturbed)


def test_generators_of_every_gpu_are_seeded_by_epoch_as_well(data, tmp_path, monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    finished(data, tmp_path / "one")
    assert len(set(seeds)) == len(seeds) == 1 + 4  # the weights' and the epochs', all different
    first = seeds.copy()
    seeds.clear()
    finished(data, tmp_path / "two")
    assert seeds == first
    seeds.clear()
    finished(data, tmp_path / "three", seed=1)
    assert not set(seeds) & set(first)


@pytest.mark.parametrize("changed", ["nothing", "versions", "loops", "products"])
def test_what_something_else_computed_is_not_resumed(data, tmp_path, changed, monkeypatch):
    interrupted(data, tmp_path / "state", 1, channels=64)
    made = training(data, channels=64)
    if changed == "versions":
        monkeypatch.setattr(checkpoints, "versions", lambda: {"torch": "another"})
    elif changed == "loops":
        if not made.network.shares():
            pytest.skip("no compiled loops here")
        made.network.uses_native = False
    elif changed == "products":
        one = made.network.precision == torch.float32
        made.network.precision = torch.bfloat16 if one else torch.float32
    next(made.run(tmp_path / "state", "a"))
    assert made.checkpoint.resumed_at == (1 if changed == "nothing" else 0)


def test_a_finished_state_is_not_trained_again(data, tmp_path, undisturbed):
    state = tmp_path / "state.safetensors"
    finished(data, state, **EACH_EPOCH)
    again = training(data)
    again.data.groups = lambda generator: pytest.fail("trained again")
    assert len(list(again.run(state, "a"))) == 4
    assert_same_bits(again, undisturbed)


def renamed(tensors, about):
    tensors["optimizer."] = tensors.pop("optimizer.0.exp_avg")


def reshaped(tensors, about):
    tensors["best.out.weight"] = tensors["best.out.weight"][:, 1:]


def without_moments(tensors, about):
    del tensors["optimizer.1.step"]


def without_weights(tensors, about):
    tensors.pop(next(name for name in tensors if name.startswith("last.")))


def with_other_progress(tensors, about):
    about["progress"]["more"] = 1


@pytest.mark.parametrize(
    "change", [renamed, reshaped, without_moments, without_weights, with_other_progress]
)
def test_a_state_of_the_right_identity_that_does_not_fit_is_ignored(
    data, tmp_path, undisturbed, change
):
    state = tmp_path / "state.safetensors"
    finished(data, state, **EACH_EPOCH)
    tensors, about = tensor_file.load(state)
    change(tensors, about)
    tensor_file.save(state, tensors, about)
    again = finished(data, state)
    assert again.checkpoint.resumed_at == 0
    assert_same_bits(again, undisturbed)


@pytest.mark.parametrize("content", ["other identity", "garbage", "empty", "other checkpoint"])
def test_a_state_that_is_not_this_runs_is_ignored(data, tmp_path, undisturbed, content):
    state = tmp_path / "state.safetensors"
    if content == "other identity":
        finished(data, state, identity="b", seed=5, **EACH_EPOCH)
    elif content == "other checkpoint":
        tensor_file.save(state, {"x": torch.ones(1)}, {"fold": 3})
    else:
        state.write_bytes(b"\x80\x04garbage" if content == "garbage" else b"")
    assert_same_bits(finished(data, state), undisturbed)


def test_saving_waits_for_its_interval(data, tmp_path):
    made = finished(data, tmp_path / "state.safetensors")
    assert made.data.settings.save_seconds > 1
    assert not (tmp_path / "state.safetensors").exists()


def test_it_learns(data, tmp_path):
    history = finished(data, tmp_path / "state", epochs=40, learning_rate=5e-3).checkpoint.history
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
    best = done.checkpoint.validations["best"]
    assert best["tau"] == max(taus)
    assert best["epoch"] == 1 + taus.index(max(taus))
    assert done.checkpoint.validations["last"]["tau"] == taus[-1]
    assert done.checkpoint.validations["last"]["epoch"] == 6
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
    made, drawn = training(data, epochs=3), []
    draw = made.data.draw

    def watched(*arguments):
        batch = draw(*arguments)
        drawn.append(tuple(batch.runtimes[0].tolist()))
        return batch

    made.data.draw = watched
    list(made.run(tmp_path / "state"))
    assert len(set(drawn)) == len(drawn) == 3 * len(data.train)


def test_weight_decay_spares_biases_and_temperatures(data, tmp_path):
    made = finished(data, tmp_path / "state", epochs=1)
    decayed, spared = made.checkpoint.optimizer.param_groups
    names = {id(p): name for name, p in made.network.named_parameters()}
    assert decayed["weight_decay"] == 1e-5
    assert spared["weight_decay"] == 0
    assert all(names[id(p)].endswith("weight") for p in decayed["params"])
    assert all(names[id(p)].endswith(("bias", "temperature")) for p in spared["params"])
    assert len(decayed["params"]) + len(spared["params"]) == len(names)


def test_gradients_are_clipped(data, tmp_path, monkeypatch):
    limits = []
    real = torch.nn.utils.clip_grad_norm_

    def watched(parameters, limit):
        parameters = list(parameters)
        norm = real(parameters, limit)
        after = torch.stack([p.grad.norm() for p in parameters if p.grad is not None]).norm()
        assert after <= limit * 1.001
        limits.append(limit)
        return norm

    monkeypatch.setattr(stage_script("train").nn.utils, "clip_grad_norm_", watched)
    finished(data, tmp_path / "state", epochs=1, gradient_clip=0.01)
    assert limits == [0.01] * 4


def test_a_fold_that_diverges_between_validations_has_none(data, tmp_path):
    made = training(data, epochs=4, validate_every=2)
    rows = made.run(tmp_path / "state", "a")
    next(rows), next(rows)
    assert made.checkpoint.validations["last"]
    with torch.no_grad():
        for weights in made.network.parameters():
            weights.fill_(float("nan"))
    assert len(list(rows)) == 1
    with pytest.raises(UserError, match="fold 1 diverged"):
        made.checkpoint.validation(1)
    assert made.checkpoint.validations["best"]
