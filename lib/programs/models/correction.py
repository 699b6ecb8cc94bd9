"""What corrects a first prediction of latencies: a second stage, fitted where the first one errs.

The first stage is fitted to squared errors of logarithms on its training programs. The second is
shown programs that the first has not seen, with what that said of them, and is fitted to relative
errors: it learns which predictions are drawn to the middle, and that what is too large counts more
than what is too small.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from lib.programs.models.trees import Trees

SHIFTS = np.linspace(-0.5, 0.3, 81)  # logarithms of the factor that are tried
WEIGHTS = np.linspace(0, 1, 11)  # of the network in the blend


class Correction(nn.Module):
    """A blend of two predictions, and trees that add to it.

    Args:
        count: trees; none blends alone.
        depth: decisions on a path through a tree.
    """

    weight: Tensor
    shift: Tensor

    def __init__(self, count: int, depth: int):
        super().__init__()
        self.trees = Trees(count, depth)
        self.register_buffer("weight", torch.tensor(0.5))
        self.register_buffer("shift", torch.zeros(()))

    def forward(self, network: Tensor, trees: Tensor, rows: Tensor, work: Tensor) -> Tensor:
        """Logarithms of latencies in seconds, (b, d) float64.

        Args:
            network, trees: (b, d) float64, what both say.
            rows: (b * d, f) float32, device by device of each program.
            work: (b,) its logarithm.
        """
        first = self.blended(network, trees)
        if not len(self.trees.feature):
            return first
        return first + self.trees(corrected_rows(rows, first, work)).reshape(first.shape)

    def blended(self, network: Tensor, trees: Tensor) -> Tensor:
        """Both predictions as one."""
        return self.weight * network + (1 - self.weight) * trees + self.shift

    def calibrate(self, network: np.ndarray, trees: np.ndarray, seconds: np.ndarray) -> None:
        """Set the blend's weight and factor to those of least mean relative error.

        Args:
            network, trees: (n,) predicted logarithms of programs that neither was fitted on.
            seconds: (n,) measured.
        """
        wanted, best = np.log(seconds), np.inf
        for weight in WEIGHTS:
            gap = weight * network + (1 - weight) * trees - wanted
            costs = [np.abs(np.expm1(gap + shift)).mean() for shift in SHIFTS]
            if min(costs) < best:
                best = min(costs)
                self.weight.fill_(weight)
                self.shift.fill_(SHIFTS[int(np.argmin(costs))])


def corrected_rows(rows: Tensor, first: Tensor, work: Tensor) -> Tensor:
    """What a correction's trees read, (b * d, f + 2): also the first prediction, and over work."""
    both = [first.reshape(-1, 1), (first - work[:, None]).reshape(-1, 1)]
    return torch.cat([rows, *(one.to(rows.dtype) for one in both)], 1)
