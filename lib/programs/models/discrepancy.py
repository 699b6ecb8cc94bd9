"""Distance of two samples of a latent space: Central Moment Discrepancy (CDMPP, 5.3)."""

from __future__ import annotations

import torch
from torch import Tensor

MOMENTS = 5
NARROWEST = 1e-6  # of the support that is divided by


def central_moment_discrepancy(source: Tensor, target: Tensor, moments: int = MOMENTS) -> Tensor:
    """Equation 6, of the first ``moments`` moments: a number that is 0 for equal moments.

    The equation divides the j-th moment by |b - a| to the power of j, where ``a`` and ``b`` are the
    joint support of both distributions, and does not say how to find it. Here it is that of the
    samples: from the smallest to the largest number in either, over all dimensions, as a constant
    without a gradient. So the discrepancy does not depend on the unit of the latent space. (The
    published code divides by 1 for a space that has no bound.)

    Args:
        source, target: (n, e) and (m, e), a row a sample; n and m at least 1.
        moments: how many count; 1 compares means alone.
    """
    with torch.no_grad():
        low = torch.minimum(source.min(), target.min())
        width = (torch.maximum(source.max(), target.max()) - low).clamp(min=NARROWEST)
    means = source.mean(0), target.mean(0)
    distance = _norm((means[0] - means[1]) / width)
    centred = [(x - mean) / width for x, mean in zip((source, target), means, strict=True)]
    for order in range(2, moments + 1):
        first, second = (x.pow(order).mean(0) for x in centred)
        distance = distance + _norm(first - second)
    return distance


def _norm(x: Tensor) -> Tensor:
    """The Euclidean one, whose gradient at zero is zero."""
    return torch.linalg.vector_norm(x)
