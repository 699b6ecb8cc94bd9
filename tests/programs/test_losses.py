"""Losses of latencies against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.programs.losses import LATENCY_LOSSES, relative_of_logarithms

LABELS = torch.tensor([[0.5, -2.0], [1.0, 0.01]])
PREDICTED = torch.tensor([[0.0, -1.0], [2.0, 0.11]])


def test_the_loss_of_latencies_is_that_of_the_paper():
    found = LATENCY_LOSSES["mse+mape"](PREDICTED, LABELS, 0.2, 0.1)
    expected = (0.25 + 1 + 1 + 0.01) / 4 + 0.2 * (1 + 0.5 + 1 + 1) / 4
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


@given(gap=st.floats(-3, 3), weight=st.floats(0, 1))
def test_an_error_of_logarithms_becomes_a_relative_one(gap, weight):
    """By hand: |exp(gap) - 1| up to a gap of 1.5, and Huber's cost with a corner at one half."""
    found = relative_of_logarithms(torch.tensor([gap]), torch.zeros(1), weight, 0.0)
    smooth = gap**2 if abs(gap) < 0.5 else abs(gap) - 0.25
    expected = weight * abs(np.expm1(min(gap, 1.5))) + (1 - weight) * smooth
    assert float(found) == pytest.approx(expected, rel=1e-4, abs=1e-5)
