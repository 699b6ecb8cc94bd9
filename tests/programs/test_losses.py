"""Losses of latencies against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.programs.losses import LATENCY_LOSSES, relative_of_logarithms
from lib.programs.settings import LOSS_NAMES, ProgramPlusSettings

LABELS = torch.tensor([[0.5, -2.0], [1.0, 0.01]])
PREDICTED = torch.tensor([[0.0, -1.0], [2.0, 0.11]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mse", (0.25 + 1 + 1 + 0.01) / 4),
        ("mape", (1 + 0.5 + 1 + 1) / 4),
        ("mse+mape", (0.25 + 1 + 1 + 0.01) / 4 + 0.2 * (1 + 0.5 + 1 + 1) / 4),
    ],
)
def test_losses_of_latencies_are_as_in_the_paper(name, expected):
    found = LATENCY_LOSSES[name](PREDICTED, LABELS, 0.2, 0.1)
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", LATENCY_LOSSES)
def test_latencies_that_nobody_measured_cost_nothing(name):
    wanted = LABELS.clone()
    wanted[1, 0] = torch.nan
    predicted = PREDICTED.clone().requires_grad_()
    loss = LATENCY_LOSSES[name](predicted, wanted, 0.2, 0.1)
    loss.backward()
    assert torch.isfinite(loss) and predicted.grad[1, 0] == 0
    assert float(LATENCY_LOSSES[name](PREDICTED, wanted * torch.nan, 0.2, 0.1)) == 0


@pytest.mark.parametrize("name", LATENCY_LOSSES)
def test_labels_about_zero_do_not_make_a_loss_huge(name):
    found = LATENCY_LOSSES[name](torch.tensor([0.1]), torch.tensor([0.0]), 1e-3, 0.1)
    assert float(found) <= 1.01


def test_the_table_has_every_loss_that_a_setting_names_and_no_other():
    assert tuple(LATENCY_LOSSES) == (*LOSS_NAMES, ProgramPlusSettings.loss)


@given(gap=st.floats(-3, 3), weight=st.floats(0, 1))
def test_an_error_of_logarithms_becomes_a_relative_one(gap, weight):
    """By hand: |exp(gap) - 1| up to a gap of 1.5, and Huber's cost with a corner at one half."""
    found = relative_of_logarithms(torch.tensor([gap]), torch.zeros(1), weight, 0.0)
    smooth = gap**2 if abs(gap) < 0.5 else abs(gap) - 0.25
    expected = weight * abs(np.expm1(min(gap, 1.5))) + (1 - weight) * smooth
    assert float(found) == pytest.approx(expected, rel=1e-4, abs=1e-5)
