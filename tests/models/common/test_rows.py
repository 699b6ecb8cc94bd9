"""Standardization, embedding, and expanding rows to cells."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.models.common.rows import Standardize


@given(
    st.floats(-(2.0**40), 2.0**40, width=32),
    st.floats(1e-3, 1e6),
    st.integers(0, 999),
    st.integers(2, 60),
)
def test_standardized_columns(constant, scale, seed, rows):
    values = np.random.default_rng(seed).normal(scale, scale, (rows, 2)).astype(np.float32)
    features = torch.tensor(np.column_stack([values, np.full(rows, constant, np.float32)]))
    layer = Standardize(3)
    layer.fit(features)
    found = layer(features).double()
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found[:, :2].mean(dim=0), 0, atol=1e-4)
    np.testing.assert_allclose(found[:, :2].std(dim=0, correction=0), 1, atol=1e-4)
    assert (found[:, 2] == 0).all()


def test_a_constant_feature_that_differs_elsewhere_is_still_zero():
    layer = Standardize(1)
    layer.fit(torch.full((5, 1), 3.0))
    assert layer(torch.tensor([[1e9]])).item() == 0


def test_what_was_never_seen_is_passed_on_as_zeros():
    made = Standardize(3)
    made.fit(torch.randn(5, 3))
    made.fit(torch.zeros(0, 3))
    assert made(torch.randn(4, 3)).eq(0).all()
