"""Standardization, embedding, and expanding rows to cells."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.models.common.rows import RowVectors, Standardize, expand_rows
from lib.models.tgraph.inputs import graph_tensors
from tests.builders import cached_graph


@given(
    st.floats(-(2.0**40), 2.0**40, width=32),
    st.floats(1e-3, 1e6),
    st.integers(0, 999),
    st.integers(2, 60),
)
@settings(max_examples=60, deadline=None)
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


def test_statistics_are_kept_with_the_weights():
    inputs = RowVectors(2, 2)
    assert {"standardize.mean", "standardize.factor"} <= set(inputs.state_dict())
    assert not inputs.standardize.mean.requires_grad


@pytest.mark.parametrize(("opcode", "layout", "width"), [(16, 4, 246), (3, 2, 134 + 3 + 48)])
def test_width_of_a_row(opcode, layout, width):
    inputs = RowVectors(opcode, layout)
    batch = graph_tensors(cached_graph()).batch(np.arange(4))
    assert inputs.width == width
    assert inputs(batch).shape == (len(batch.opcode), width)


def test_one_embedding_of_digits_serves_both_layouts():
    inputs = RowVectors(2, 1)
    with torch.no_grad():
        inputs.digit.weight.copy_(torch.arange(7.0)[:, None])
    batch = graph_tensors(cached_graph()).batch(np.arange(4))
    digits = inputs(batch)[:, 134 + 2 :]
    assert torch.equal(digits, torch.cat([batch.layout, batch.config], dim=1).float())


def test_what_was_never_seen_is_passed_on_as_zeros():
    made = Standardize(3)
    made.fit(torch.randn(5, 3))
    made.fit(torch.zeros(0, 3))
    assert made(torch.randn(4, 3)).eq(0).all()


def test_expanding_puts_each_row_where_its_cells_are():
    graph = cached_graph(2)
    batch = graph_tensors(graph).batch(np.array([5, 1, 1]))
    table = torch.arange(float(len(batch.opcode)))[:, None]
    x = expand_rows(table, batch)[..., 0]  # (nodes, configurations)
    assert torch.equal(x[: len(batch.cells)], batch.cells.float())
    others = torch.arange(float(12 - len(batch.cells)))
    assert torch.equal(x[len(batch.cells) :], others[:, None].expand(-1, 3))
