"""bfloat16 against float32: the ranking that is learned is as good, within what a seed changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lib.training.fold import Fold
from lib.training.loop import Training
from tests.builders import tiny_settings
from tests.training.test_loop import labelled

SEEDS = range(3)


def validation_tau(data: Fold, tmp_path, seed: int, precision: str) -> float:
    wanted = {"channels": 64, "epochs": 12, "learning_rate": 5e-3, "configurations": 16}
    settings = tiny_settings(seed=seed, precision=precision, **wanted)
    file = tmp_path / f"{precision}{seed}"
    run = Training(replace(data, settings=settings), 0, file, precision)
    list(run.run())
    return run.checkpoint.validations["last"]["tau"]


def test_tau_stays_within_its_seed_noise(tmp_path):
    graphs = [[labelled(i) for i in numbers] for numbers in (range(12), range(20, 26))]
    data = Fold(*graphs, tiny_settings())
    exact = np.array([validation_tau(data, tmp_path, seed, "float32") for seed in SEEDS])
    rounded = np.array([validation_tau(data, tmp_path, seed, "bfloat16") for seed in SEEDS])
    assert exact.mean() > 0.3, "nothing was learned: nothing is shown"
    noise = exact.std(ddof=1) * np.sqrt(2 / len(SEEDS))  # of a difference of two means
    assert abs(rounded.mean() - exact.mean()) < 2 * noise + 0.01
    assert not np.array_equal(exact, rounded)
