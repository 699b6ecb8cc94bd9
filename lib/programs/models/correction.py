"""What corrects a first prediction of latencies, and what blends two.

The first stage of trees is fitted to squared errors of logarithms. The second is shown programs
with the predictions of trees that had not seen them, and is fitted to relative errors: it learns
which predictions are drawn to the middle, and that too large counts more than too small.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

SHIFTS = np.linspace(-0.5, 0.3, 81)  # logarithms of the factor that are tried
WEIGHTS = np.linspace(0, 1, 11)  # of the network in the blend


class Blend(nn.Module):
    """Two predictions as one, times a factor."""

    weight: Tensor
    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor(0.5))
        self.register_buffer("shift", torch.zeros(()))

    def forward(self, network: Tensor, trees: Tensor) -> Tensor:
        """Logarithms of latencies in seconds, of the shape of what both say."""
        return self.weight * network + (1 - self.weight) * trees + self.shift

    def calibrate(self, network: np.ndarray, trees: np.ndarray, seconds: np.ndarray) -> None:
        """Set weight and factor to those of least mean relative error.

        Args:
            network, trees: (n,) predicted logarithms of programs that neither was fitted on.
            seconds: (n,) measured.
        """
        truth, best = np.log(seconds), np.inf
        for weight in WEIGHTS:
            gap = weight * network + (1 - weight) * trees - truth
            costs = [np.abs(np.expm1(gap + shift)).mean() for shift in SHIFTS]
            if min(costs) < best:
                best = min(costs)
                self.weight.fill_(weight)
                self.shift.fill_(SHIFTS[int(np.argmin(costs))])


def corrected_rows(rows: Tensor, first: Tensor, work: Tensor) -> Tensor:
    """What a correction's trees read, (b * d, f + 2): also the first prediction, and over work.

    Args:
        rows: (b * d, f) what the first trees read, device by device of each program.
        first: (b, d) logarithms that these predict.
        work: (b,) its logarithm.
    """
    columns = [first.reshape(-1, 1), (first - work[:, None]).reshape(-1, 1)]
    return torch.cat([rows, *(column.to(rows.dtype) for column in columns)], 1)
