"""Latencies to labels and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.programs.models.labels import BEYOND, MILLISECONDS, LabelTransform
from lib.programs.settings import TRANSFORMS


def latencies(seed: int, count: int = 500) -> np.ndarray:
    """Seconds with the long tail that measured ones have."""
    return np.exp(np.random.default_rng(seed).normal(-8.5, 1.5, count))


def fitted(name: str, seconds: np.ndarray) -> LabelTransform:
    made = LabelTransform(name)
    made.fit(seconds)
    return made


@pytest.mark.parametrize("name", TRANSFORMS)
@settings(max_examples=10)
@given(seed=st.integers(0, 1000), count=st.integers(2, 300))
def test_the_way_back_leads_back(name, seed, count):
    seconds = latencies(seed, count)
    made = fitted(name, seconds)
    low, high = np.quantile(seconds, [0.01, 0.99])
    inside = torch.from_numpy(seconds[(seconds >= low) & (seconds <= high)])
    torch.testing.assert_close(made.log_seconds(made(inside)), inside.log(), rtol=1e-6, atol=1e-6)


def test_box_and_coxs_transform_is_that_of_scikit_learn():
    from sklearn.preprocessing import PowerTransformer  # takes a second to import

    seconds = latencies(3)
    theirs = PowerTransformer("box-cox").fit_transform(seconds[:, None] * MILLISECONDS)[:, 0]
    ours = fitted("box-cox", seconds)(torch.from_numpy(seconds)).numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_any_label_means_some_time(name):
    made = fitted(name, latencies(2))
    seconds = made.log_seconds(torch.tensor([-1e3, -30.0, 0.0, 30.0, 1e3])).exp()
    assert (seconds.diff() >= 0).all()
    low, high = latencies(2).min() / BEYOND, latencies(2).max() * BEYOND
    assert low * 0.999 <= seconds[0] and seconds[-1] <= high * 1.001
