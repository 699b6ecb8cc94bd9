"""Losses of an order.

They take (..., b) scores, lower meaning faster, and (b,) positive runtimes of any type. Each row of
scores has a loss of its own, such as that of each network of an ensemble.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

SHARPNESS = 4.0  # standardized scores that differ by 1/4 are ordered with odds of e to 1
NOISE = 0.01  # relative difference of runtimes that counts half
SMALLEST = 1e-6
PAIRS = (-2, -1)


def pairwise_hinge(scores: Tensor, runtimes: Tensor) -> Tensor:
    """Return the pairwise hinge loss (TGraph paper, equation 8): mean of max(0, 1 - (s_i - s_j))
    over the ordered pairs with r_i > r_j; with none at all it is 0.

    The paper writes a sum. Gradients of the mean are those of the sum over the number of ordered
    pairs, about 2,000 for 64 configurations: only of the mean is their norm of the size at which
    the paper clips it, 1.0. Of the sum nearly every step would be clipped. The competition's first
    place takes a mean as well, over all b^2 pairs (``loss.py`` of
    github.com/thanhhau097/google_fast_or_slow), which is half of this one.
    """
    slower = runtimes[:, None] > runtimes[None, :]  # (b, b): the first one of the pair is
    margins = torch.relu(1 - (scores[..., :, None] - scores[..., None, :]))
    return (margins * slower).sum(dim=PAIRS) / slower.sum().clamp(min=1)


def pairwise_logistic(scores: Tensor, runtimes: Tensor) -> Tensor:
    """Return the mean over ordered pairs of log(1 + exp(-SHARPNESS (s_i - s_j))), of standardized
    scores.

    Scores are standardized within the graph, so that a graph whose configurations differ little
    is not one whose scores have to be large. A pair counts w = g / (g + NOISE), g being the
    difference of its runtimes' logarithms: runtimes that lie within the clock's noise of each
    other say little about which is faster. With no ordered pair at all the loss is 0.
    """
    centred = scores - scores.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    spread = (variance + SMALLEST**2).sqrt()  # also differentiable if all are alike
    standardized = SHARPNESS * centred / spread
    logarithms = runtimes.to(scores.dtype).log()
    gap = torch.relu(logarithms[:, None] - logarithms[None, :])
    weight = gap / (gap + NOISE)
    costs = nn.functional.softplus(standardized[..., None, :] - standardized[..., :, None])
    return (costs * weight).sum(dim=PAIRS) / weight.sum().clamp(min=SMALLEST)


def correlation(scores: Tensor, runtimes: Tensor) -> Tensor:
    """Return 1 - Pearson's correlation of scores with runtimes: 0 to 2.

    A score that sums costs is a runtime in a unit of its own, so that how far runtimes lie apart
    says something as well, and not their order alone. Of a single configuration, or of equal
    runtimes, it is 1, without a gradient.
    """
    targets = runtimes.to(scores.dtype)
    scores, targets = (data - data.mean(dim=-1, keepdim=True) for data in (scores, targets))
    sizes = [
        (data.square().sum(dim=-1, keepdim=True) + SMALLEST**2).sqrt() for data in (scores, targets)
    ]
    return 1 - (scores / sizes[0] * (targets / sizes[1])).sum(dim=-1)


# By the name that settings have for it.
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "hinge": pairwise_hinge,
    "logistic": pairwise_logistic,
    "correlation": correlation,
    "logistic+correlation": lambda s, r: pairwise_logistic(s, r) + correlation(s, r),
}
