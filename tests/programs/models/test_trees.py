"""Sums of decision trees as tensors, against XGBoost's own predictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.programs.boosted import BOOSTING, boost
from lib.programs.models.trees import Trees


def table(seed: int, rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5)).astype(np.float32).round(1)  # with equal values
    return x, 2 * x[:, 0] - np.abs(x[:, 1]) + 0.1 * rng.normal(size=rows)


@settings(max_examples=10)
@given(seed=st.integers(0, 99), count=st.integers(1, 70), depth=st.integers(1, 6))
def test_predictions_are_xgboosts(seed, count, depth):
    x, y = table(seed)
    trees = Trees(count, depth)
    boost(trees, x, y, 0.1, seed)
    about = {**BOOSTING, "max_depth": depth, "eta": 0.1, "seed": seed, "base_score": y.mean()}
    theirs = xgboost.train(about, xgboost.QuantileDMatrix(x, y, max_bin=BOOSTING["max_bin"]), count)
    other, _ = table(seed + 1)
    for rows in (x, other):
        expected = theirs.predict(xgboost.DMatrix(rows))
        np.testing.assert_allclose(trees(torch.from_numpy(rows)), expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=20)
@given(
    rows=st.integers(0, 40),
    features=st.integers(1, 9),
    count=st.integers(1, 5),
    depth=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_compiled_loops_come_to_the_same_leaves(rows, features, count, depth, seed):
    trees, drawn = Trees(count, depth), torch.Generator().manual_seed(seed)
    trees.feature.random_(0, features, generator=drawn)
    trees.threshold.normal_(generator=drawn)
    trees.value.normal_(generator=drawn)
    x = torch.randn((features, rows), generator=drawn).T  # rows that do not lie one after another
    found = trees(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lib.native.available", lambda: False)
        torch.testing.assert_close(found, trees(x))


def test_trees_learn():
    x, y = table(0, 500)
    trees = Trees(100, 4)
    boost(trees, x, y, 0.1, 0)
    error = np.abs(trees(torch.from_numpy(x)).numpy() - y).mean()
    assert error < 0.3 * np.abs(y - y.mean()).mean()


def test_trees_that_know_nothing_are_their_base():
    trees = Trees(3, 2)
    trees.base.fill_(1.5)
    assert torch.equal(trees(torch.rand(4, 2)), torch.full((4,), 1.5))


def test_what_was_fitted_is_saved_with_the_weights():
    x, y = table(1)
    trees, other = Trees(5, 3), Trees(5, 3)
    boost(trees, x, y, 0.3, 0)
    other.load_state_dict(trees.state_dict())
    assert torch.equal(trees(torch.from_numpy(x)), other(torch.from_numpy(x)))


@pytest.mark.parametrize("number", [-5, 9999])
def test_features_that_there_are_not_do_no_harm(number):
    trees = Trees(2, 2)
    trees.feature.fill_(number)
    assert torch.isfinite(trees(torch.rand(3, 4))).all()
