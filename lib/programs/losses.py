"""Losses that a predictor of latencies is trained to minimize."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

STEEPEST = 1.5  # of a logarithm


def mse_and_mape(labels: Tensor, measured: Tensor, weight: float, least: float) -> Tensor:
    """Return the mean squared error plus ``weight`` times the mean relative one (equation 3).

    Labels are standardized, so that some are near zero: none is divided by less than ``least``.

    Args:
        labels, measured: of one shape, predicted and true; what is measured as NaN does not count.
        weight: lambda of the equation.
        least: see above.
    """
    difference, size = _differences(labels, measured, least)
    return _mean(difference.square(), size) + weight * _mean(difference.abs() / size, size)


def relative_of_logarithms(labels: Tensor, measured: Tensor, weight: float, least: float) -> Tensor:
    """Return ``weight`` times the relative error of logarithms, and the rest of their smooth one.

    A prediction that is far too small hardly changes its relative error, so that training had
    better begin with the other; one that is more than ``STEEPEST`` too large pulls no further.

    Args:
        labels, measured: of one shape, logarithms; NaN does not count.
        weight: from 0 to 1.
        least: is not read.
    """
    gap, size = _differences(labels, measured, least)
    relative = gap.clamp(max=STEEPEST).expm1().abs()
    smooth = nn.functional.smooth_l1_loss(gap, torch.zeros_like(gap), reduction="none", beta=0.5)
    return _mean(weight * relative + (1 - weight) * smooth, size)


def _differences(labels: Tensor, measured: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Return differences from and sizes of the labels that were measured, (n,) each."""
    known = torch.isfinite(measured)
    truth = measured[known].to(labels.dtype)
    return labels[known] - truth, truth.abs().clamp(min=least)


def _mean(costs: Tensor, size: Tensor) -> Tensor:
    """Return the mean; 0 of none."""
    return costs.sum() / max(1, len(size))


LATENCY_LOSSES: dict[str, Callable[[Tensor, Tensor, float, float], Tensor]] = {
    "mse+mape": mse_and_mape,
    "relative": relative_of_logarithms,
}
