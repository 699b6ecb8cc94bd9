"""Training on programs: what a pass sees, and that something is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.training.fold import load_fold, new_network
from tests.programs.builders import tiny_plus, tiny_settings, write_programs
from tests.training_loop import Training

SETTINGS, PLUS = tiny_settings(), tiny_plus()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_programs(tmp_path_factory.mktemp("train"), tasks=15, programs=16)


def batches(data, seed: int, done: float = 0.0):
    """The batches of a pass."""
    generator = np.random.default_rng(seed)
    return [data.draw(group, generator, done) for group in data.groups(generator)]


def latencies(labels) -> torch.Tensor:
    """The labels that are there, in order."""
    flat = torch.cat([one.flatten() for one in labels])
    return flat[torch.isfinite(flat)]


def test_a_pass_has_every_program_once_in_batches_of_one_number_of_leaves(cache):
    data = load_fold(cache, 0, SETTINGS)
    new_network(data, 0, 0)
    samples = list(batches(data, 0))
    assert len(samples) == data.steps()
    assert sum(len(one.labels) for one in samples) == len(data.programs)
    found, expected = latencies(one.labels for one in samples), latencies([data.labels])
    torch.testing.assert_close(found.sort().values, expected.sort().values)


@pytest.mark.parametrize(
    ("settings", "split", "most"), [(SETTINGS, "networks", 1.0), (PLUS, "random", 0.5)]
)
def test_something_is_learned(cache, tmp_path, settings, split, most):
    settings = replace(settings, split=split, epochs=25)
    training = Training(load_fold(cache, 0, settings), 0, tmp_path / "state", "identity")
    list(training.run())
    assert training.checkpoint.validations["last"]["mape"] < most  # 1.7 and more of fresh weights


def test_the_relative_error_counts_from_a_third_of_the_training_on(cache):
    data, weights = load_fold(cache, 0, PLUS), []
    new_network(data, 0, 0)
    for done in (0.0, 0.3, 0.45, 0.6, 0.9):
        weights.append(batches(data, 0, done)[0].mape_weight)
    assert weights == pytest.approx([0, 0, 0.5, 1, 1])
    other = load_fold(cache, 0, SETTINGS)
    new_network(other, 0, 0)
    assert batches(other, 0)[0].mape_weight == SETTINGS.mape_weight
