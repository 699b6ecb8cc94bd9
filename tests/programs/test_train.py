"""Training on programs: what a pass sees, and that something is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.files.errors import UserError
from lib.models.common.build import network_for
from lib.programs.models.discrepancy import central_moment_discrepancy
from lib.training.fold import load_fold, new_network
from lib.training.loop import FoldTraining
from tests.programs.builders import tiny_plus, tiny_settings, write_programs

SETTINGS, PLUS = tiny_settings(), tiny_plus()
BOTH = pytest.mark.parametrize("settings", [SETTINGS, PLUS], ids=["cdmpp", "cdmpp-plus"])


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_programs(tmp_path_factory.mktemp("train"), tasks=15, programs=16)


def trained(cache, settings, folder, epochs: int | None = None) -> FoldTraining:
    """A training of fold 0; with ``epochs``, one that was killed after so many."""
    data = load_fold(cache, 0, settings)
    network = new_network(lambda: network_for(settings), data, settings.seed, 0)
    training = FoldTraining(network, data, 0)
    for row in training.run(folder / "state.safetensors", "identity"):
        if row["epoch"] == epochs:
            break
    return training


def latencies(labels) -> torch.Tensor:
    """The labels that are there, in order."""
    flat = torch.cat([one.flatten() for one in labels])
    return flat[torch.isfinite(flat)]


def test_a_pass_has_every_program_once_in_batches_of_one_number_of_leaves(cache):
    data = load_fold(cache, 0, SETTINGS)
    new_network(lambda: network_for(SETTINGS), data, 0, 0)
    samples = list(data.samples(np.random.default_rng(0)))
    assert len(samples) == data.steps()
    assert sum(len(one.labels) for one in samples) == len(data.programs)
    found, expected = latencies(one.labels for one in samples), latencies([data.labels])
    torch.testing.assert_close(found.sort().values, expected.sort().values)


def test_a_batch_reads_the_devices_that_its_programs_were_measured_on(cache):
    data = load_fold(cache, 0, SETTINGS)
    data.programs.seconds[::3, 0] = np.nan
    data.programs.seconds[1::3, 1:] = np.nan
    new_network(lambda: network_for(SETTINGS), data, 0, 0)
    pairs, numbers = [], {tuple(row): k for k, row in enumerate(data.devices.tolist())}
    for batch in data.samples(np.random.default_rng(0)):
        assert batch.inputs.devices.shape[:2] == batch.labels.shape
        for devices, labels in zip(batch.inputs.devices, batch.labels, strict=True):
            known = [numbers[tuple(row)] for row in devices.tolist()]
            pairs += zip(known, labels.tolist(), strict=True)
    measured = np.isfinite(data.programs.seconds)
    expected = zip(np.nonzero(measured)[1].tolist(), data.labels[measured].tolist(), strict=True)
    assert sorted(pairs) == sorted(expected)
    assert {measured[k].sum() for k in range(3)} == {1, len(data.devices) - 1, len(data.devices)}


def test_passes_are_in_other_orders(cache):
    data = load_fold(cache, 0, SETTINGS)
    new_network(lambda: network_for(SETTINGS), data, 0, 0)
    one, other, same = (
        latencies(s.labels for s in data.samples(np.random.default_rng(seed))) for seed in (0, 1, 0)
    )
    assert torch.equal(one, same) and not torch.equal(one, other)


@BOTH
@pytest.mark.parametrize(("split", "most"), [("networks", 1.0), ("random", 0.5)])
def test_something_is_learned(cache, tmp_path, split, most, settings):
    settings = replace(settings, split=split, epochs=25)
    training = trained(cache, settings, tmp_path)
    assert training.state.validations["last"]["mape"] < most  # 1.7 and more of fresh weights


def test_lower_errors_are_better(cache, tmp_path):
    training = trained(cache, replace(SETTINGS, epochs=6), tmp_path)
    history = training.state.history_frame()["validation_mape"]
    assert training.state.validations["best"]["mape"] == history.min() < history.max()


@BOTH
def test_a_killed_training_ends_with_the_same_bits(cache, tmp_path, settings):
    settings = replace(settings, save_seconds=0.0)
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    whole = trained(cache, settings, tmp_path / "a")
    trained(cache, settings, tmp_path / "b", epochs=2)
    resumed = trained(cache, settings, tmp_path / "b")
    assert resumed.state.resumed_at > 0
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, resumed.network.state_dict()[name]), name


@BOTH
def test_devices_are_drawn_together_if_their_discrepancy_counts(cache, tmp_path, settings):
    """Equation 7: with a weight, latents of one device come nearer to those of the others."""
    apart = []
    for alpha in (0.0, 1.0):
        training = trained(cache, replace(settings, alpha=alpha, epochs=8), tmp_path)
        data, network = training.data, training.network.eval()
        alike = np.flatnonzero(data.programs.counts == np.bincount(data.programs.counts).argmax())
        with torch.no_grad():
            _, latents = network.with_latents(data.programs.batch(alike, data.devices))
        apart.append(central_moment_discrepancy(latents[:, 0], latents[:, 1]).item())
        (tmp_path / "state.safetensors").unlink(missing_ok=True)
    assert apart[1] < 0.9 * apart[0]


def test_one_device_is_compared_with_none(cache, tmp_path):
    data = load_fold(cache, 0, SETTINGS)
    data.programs.seconds[:, 1:] = np.nan
    data.settings = replace(SETTINGS, alpha=1.0)
    network = new_network(lambda: network_for(data.settings), data, 0, 0)
    sample = next(data.samples(np.random.default_rng(0)))
    plain = sample.loss(network(sample.inputs))
    torch.testing.assert_close(data.loss(network, sample), plain)


@pytest.mark.parametrize("loss", ["mse+mape", "mse", "mape", "mspe"])
@pytest.mark.parametrize("transform", ["box-cox", "none"])
def test_every_loss_and_transform_trains(cache, tmp_path, loss, transform):
    settings = replace(SETTINGS, loss=loss, label_transform=transform, epochs=1)
    training = trained(cache, settings, tmp_path)
    assert training.state.history_frame()["loss"].is_finite().all()
    assert training.state.validations["last"]["graphs"]


def test_the_relative_error_counts_from_a_third_of_the_training_on(cache):
    data, weights = load_fold(cache, 0, PLUS), []
    new_network(lambda: network_for(PLUS), data, 0, 0)
    for data.progress in (0.0, 0.3, 0.45, 0.6, 0.9):
        weights.append(next(data.samples(np.random.default_rng(0))).mape_weight)
    assert weights == pytest.approx([0, 0, 0.5, 1, 1])
    other = load_fold(cache, 0, SETTINGS)
    new_network(lambda: network_for(SETTINGS), other, 0, 0)
    assert next(other.samples(np.random.default_rng(0))).mape_weight == SETTINGS.mape_weight


def test_a_fold_without_programs_is_told(cache):
    with pytest.raises(UserError, match="--fold 7"):
        load_fold(cache, 7, SETTINGS)
