"""What a network is trained to minimize."""

from __future__ import annotations

import torch
from torch import Tensor


def pairwise_hinge(scores: Tensor, runtimes: Tensor) -> Tensor:
    """Pairwise hinge loss (TGraph paper, equation 8): mean of max(0, 1 - (s_i - s_j)) over the
    ordered pairs with r_i > r_j.

    The paper writes a sum; the mean keeps the gradient's size, and so what clipping it at 1.0
    means, independent of the number of configurations. Pairs with equal runtimes do not count;
    with no ordered pair at all the loss is 0.

    Args:
        scores: (b,) predictions, lower meaning faster.
        runtimes: (b,) of any real or integer type.
    """
    slower = runtimes[:, None] > runtimes[None, :]
    margins = torch.relu(1 - (scores[:, None] - scores[None, :]))
    return (margins * slower).sum() / slower.sum().clamp(min=1)
