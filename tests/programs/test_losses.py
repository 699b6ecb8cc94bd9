"""Losses of latencies against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from lib.programs.losses import LATENCY_LOSSES
from lib.programs.settings import LOSS_NAMES

LABELS = torch.tensor([[0.5, -2.0], [1.0, 0.01]])
PREDICTED = torch.tensor([[0.0, -1.0], [2.0, 0.11]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mse", (0.25 + 1 + 1 + 0.01) / 4),
        ("mape", (1 + 0.5 + 1 + 1) / 4),
        ("mspe", (1 + 0.25 + 1 + 1) / 4),
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
    assert tuple(LATENCY_LOSSES) == LOSS_NAMES
