"""Latencies as a network is trained on them, and the way back (CDMPP, section 5.4).

A transform is fitted on training labels alone, and is part of the network: its numbers are saved
with the weights. Latencies are in milliseconds; labels have zero mean and unit deviation.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

MILLISECONDS = 1e3
SMALLEST = 1e-12  # milliseconds
BEYOND = 10.0  # a prediction leaves the range of the training labels by this factor at most


class LabelTransform(nn.Module):
    """Seconds to labels and back.

    Args:
        name: ``box-cox``, that is (x^power - 1) / power, or log x for a power of zero; or ``none``.
    """

    power: Tensor
    mean: Tensor
    deviation: Tensor
    reach: Tensor

    def __init__(self, name: str):
        super().__init__()
        self.bends = name == "box-cox"
        self.register_buffer("power", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("deviation", torch.ones((), dtype=torch.float64))
        self.register_buffer("reach", torch.tensor([SMALLEST, 1 / SMALLEST], dtype=torch.float64))

    def fit(self, seconds: np.ndarray) -> None:
        """Fit on (n,) latencies in seconds, n at least 1."""
        from scipy import stats  # late: it takes a second, which only training has

        values = np.asarray(seconds, np.float64) * MILLISECONDS
        if self.bends and len(np.unique(values)) > 1:
            self.power.fill_(stats.boxcox_normmax(values, method="mle"))
        self.reach.copy_(torch.tensor([values.min() / BEYOND, values.max() * BEYOND]))
        bent = self._bent(torch.from_numpy(values))
        deviation = bent.std(correction=0)
        self.mean.copy_(bent.mean())
        self.deviation.copy_(deviation if deviation > 0 else torch.ones_like(deviation))

    def forward(self, seconds: Tensor) -> Tensor:
        """Return labels of latencies in seconds, float64 of the same shape."""
        return (self._bent(seconds.double() * MILLISECONDS) - self.mean) / self.deviation

    def log_seconds(self, labels: Tensor) -> Tensor:
        """Return logarithms of the latencies, in seconds, of labels; float64, the same shape.

        Labels that mean no time, or one far from all that were fitted, mean the nearest that is
        not: Box and Cox's transform ends somewhere, and networks do not stop there.
        """
        values = labels.double() * self.deviation + self.mean
        if self.bends and self.power.abs() < 1e-8:
            values = values.exp()
        elif self.bends:
            inside = (self.power * values).clamp(min=-1 + 1e-15)
            values = torch.exp(torch.log1p(inside) / self.power)
        return torch.log(values.clamp(self.reach[0], self.reach[1]) / MILLISECONDS)

    def _bent(self, values: Tensor) -> Tensor:
        if not self.bends:
            return values
        logs = values.clamp(min=SMALLEST).log()
        return logs if self.power.abs() < 1e-8 else torch.expm1(self.power * logs) / self.power
