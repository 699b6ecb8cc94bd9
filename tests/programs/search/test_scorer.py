"""Predictions that are corrected by what was measured."""

from __future__ import annotations

import numpy as np
import pytest

from lib.programs.inputs import described_programs
from lib.programs.search.scorer import FEWEST, Scorer
from tests.programs.search.half import DRAWN, programs


def some(seed: int):
    """Programs, and how large their features are."""
    arrays = programs(np.random.default_rng(seed))
    scale = np.random.default_rng(seed + 100).uniform(0.2, 1, DRAWN)
    arrays["features"] *= np.repeat(scale, arrays["leaves"])[:, None].astype(np.float32)
    owner = np.zeros(DRAWN, np.int64)
    found = described_programs(arrays, ["task"], owner)
    return found, scale[arrays["joined"]]


def predict(programs) -> np.ndarray:
    return np.full(len(programs), -9.0)


def test_what_was_measured_corrects_programs_that_are_alike():
    scorer = Scorer(predict)
    for seed in range(4):
        known, scale = some(seed)
        scorer.learn(known, np.exp(-9 + 2 * scale))
    asked, scale = some(9)
    missed = scorer(asked) - (-9 + 2 * scale)
    assert np.abs(missed).mean() < 0.2 * np.abs(2 * scale).mean()


def test_a_common_factor_is_taken_out():
    scorer = Scorer(predict)
    known, _ = some(0)
    scorer.learn(known, np.exp(np.full(len(known), -8.5)))
    np.testing.assert_allclose(scorer(some(1)[0]), -8.5, atol=0.02)


@pytest.mark.parametrize("update", [False, True])
def test_without_enough_measurements_or_updates_the_prediction_stands(update):
    scorer = Scorer(predict, update)
    known, scale = some(0)
    seconds = np.exp(-9 + scale)
    if update:
        seconds[FEWEST - 1 :] = np.nan
    scorer.learn(known, seconds)
    assert (scorer(some(1)[0]) == -9).all()
