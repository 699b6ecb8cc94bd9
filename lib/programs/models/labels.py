"""Latencies as a network is trained on them, and the way back (CDMPP, section 5.4).

A transform is fitted on training labels alone, and is part of the network: what was fitted is
saved with the weights. Latencies are in milliseconds, since Yeo-Johnson is not free of units; all
transforms end with zero mean and unit deviation.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

QUANTILES = 1000  # that the quantile transform remembers
LEAST_QUANTILE = 1e-4  # of a normal distribution, which ends nowhere
MILLISECONDS = 1e3
SMALLEST = 1e-12  # milliseconds
BEYOND = 10.0  # a prediction leaves the range of the training labels by this factor at most


class LabelTransform(nn.Module):
    """Seconds to labels and back.

    Args:
        name: ``box-cox``, ``yeo-johnson``, ``quantile`` or ``none``.
    """

    power: Tensor
    mean: Tensor
    deviation: Tensor
    quantiles: Tensor
    reach: Tensor

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        self.register_buffer("power", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("deviation", torch.ones((), dtype=torch.float64))
        self.register_buffer("reach", torch.tensor([SMALLEST, 1 / SMALLEST], dtype=torch.float64))
        count = QUANTILES if name == "quantile" else 0
        self.register_buffer("quantiles", torch.arange(count, dtype=torch.float64))

    def fit(self, seconds: np.ndarray) -> None:
        """Fit on (n,) latencies in seconds, n at least 1."""
        from scipy import stats  # late: it takes a second, which only training has

        values = np.asarray(seconds, np.float64) * MILLISECONDS
        if len(np.unique(values)) > 1:
            if self.name == "box-cox":
                self.power.fill_(stats.boxcox_normmax(values, method="mle"))
            elif self.name == "yeo-johnson":
                self.power.fill_(stats.yeojohnson_normmax(values))
        if self.name == "quantile":
            shares = np.linspace(0, 1, QUANTILES)
            self.quantiles.copy_(torch.from_numpy(_rising(np.quantile(values, shares))))
        self.reach.copy_(torch.tensor([values.min() / BEYOND, values.max() * BEYOND]))
        bent = self._bent(torch.from_numpy(values))
        deviation = bent.std(correction=0)
        self.mean.copy_(bent.mean())
        self.deviation.copy_(deviation if deviation > 0 else torch.ones_like(deviation))

    def forward(self, seconds: Tensor) -> Tensor:
        """Labels of latencies in seconds, float64 of the same shape."""
        return (self._bent(seconds.double() * MILLISECONDS) - self.mean) / self.deviation

    def log_seconds(self, labels: Tensor) -> Tensor:
        """Logarithms of the latencies, in seconds, that labels mean; float64, the same shape.

        Labels that mean no time, or one far from all that were fitted, mean the nearest that is
        not: some transforms end somewhere, and networks do not stop there.
        """
        values = self._straight(labels.double() * self.deviation + self.mean)
        return torch.log(values.clamp(self.reach[0], self.reach[1]) / MILLISECONDS)

    def _bent(self, values: Tensor) -> Tensor:
        if self.name == "box-cox":
            return _powered(values.clamp(min=SMALLEST), self.power)
        if self.name == "yeo-johnson":  # of positive values
            return _powered(values + 1, self.power)
        if self.name == "quantile":
            shares = _interpolated(values, self.quantiles, self._shares())
            return torch.special.ndtri(shares.clamp(LEAST_QUANTILE, 1 - LEAST_QUANTILE))
        return values

    def _straight(self, bent: Tensor) -> Tensor:
        if self.name == "box-cox":
            return _rooted(bent, self.power)
        if self.name == "yeo-johnson":
            return _rooted(bent, self.power) - 1
        if self.name == "quantile":
            return _interpolated(torch.special.ndtr(bent), self._shares(), self.quantiles)
        return bent

    def _shares(self) -> Tensor:
        return torch.linspace(0, 1, QUANTILES, dtype=torch.float64, device=self.quantiles.device)


def _rising(values: np.ndarray) -> np.ndarray:
    """Values, none of which is equal to the one before it."""
    steps = np.arange(len(values)) * max(values[-1], 1.0) * 1e-12
    return np.maximum.accumulate(values) + steps


def _powered(values: Tensor, power: Tensor) -> Tensor:
    """Box and Cox's (x^power - 1) / power, its limit log x for a power of zero."""
    if power.abs() < 1e-8:
        return values.log()
    return torch.expm1(power * values.log()) / power


def _rooted(bent: Tensor, power: Tensor) -> Tensor:
    """The way back of :func:`_powered`; 0, or the largest there is, where nothing leads there."""
    if power.abs() < 1e-8:
        return bent.exp()
    inside = (power * bent).clamp(min=-1 + 1e-15)
    return torch.exp(torch.log1p(inside) / power)


def _interpolated(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Piecewise linear through (knots, values), which both rise; beyond them, the last values."""
    place = torch.searchsorted(knots, x.contiguous()).clamp(1, len(knots) - 1)
    low, high = knots[place - 1], knots[place]
    share = ((x - low) / (high - low)).clamp(0, 1)
    return values[place - 1] + share * (values[place] - values[place - 1])
