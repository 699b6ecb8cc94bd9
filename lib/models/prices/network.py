"""TGraph+ on TPUs: what each configurable node costs under its three layouts, summed.

On a TPU most of what a layout costs is known: the work of a product, times the logarithm of how
far its output is padded along lanes (:mod:`lib.compiler.tpu`). To that comes what was measured, as
prices of nodes under their layouts:

* a price by likeness: nodes that are alike in sizes, padding and work cost alike, in proportion to
  their work. What is unlike everything that was measured has none, so that arithmetic stands;
* a price of its own of each node that was measured itself: of each of its layouts, and of the three
  together. It takes what is peculiar to a program, so that prices by likeness need not.

All three are linear in what is learned, and a program's runtime is the sum of its parts. So the
weights are solved for (:mod:`lib.models.prices.training`), not descended to.

What was learned from other programs counts as much as it is known to be worth (``trust``): on real
U-Nets it made the order of another one worse than arithmetic alone. It counts fully for nodes that
were measured themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lib.models.common.batch import OnDevice
from lib.models.common.rows import Standardize

CENTRES = 1024  # nodes under layouts, at most, that likeness is measured to
ALIKE, SAME = 0.5, 0.02  # root mean square of standardized features at which likeness is e^-1/2
FAR = 1e6  # features of a centre that is not used
SEEN = 0.125  # a node alike in one of its layouts has a fourth, one unlike everything nothing
PADDING = 0.5  # before anything is measured: of a runtime, for all work padded e times as far


@dataclass(frozen=True)
class PricedBatch(OnDevice):
    """b configurations of a program with k configurable nodes, r distinct ones under layouts.

    Attributes:
        features: (r, features) float32.
        padding: (r,) float32, logarithms: how much further outputs are padded along lanes.
        share: (r,) float32, the node's work over that of all.
        places: (b, k) int64, which of the r each node is.
    """

    features: Tensor
    padding: Tensor
    share: Tensor
    places: Tensor


class Prices(nn.Module):
    """Scores: relative runtimes, up to a constant of the program; lower means faster.

    They do not depend on which configurations share a batch.

    Args:
        width: of the features.
        roles: of each feature, which layout it describes; -1 where it is of the node itself.
    """

    compared: Tensor
    centres: Tensor
    trust: Tensor

    def __init__(self, width: int, roles: Sequence[int]):
        super().__init__()
        columns = torch.tensor(roles)
        one_layout = [(columns == -1) | (columns == role) for role in sorted(set(roles) - {-1})]
        compared = torch.stack([torch.ones(width, dtype=torch.bool), *one_layout])
        self.register_buffer("compared", compared, persistent=False)
        self.standardize = Standardize(width)
        self.register_buffer("centres", torch.full((CENTRES, width), FAR))
        arithmetic = torch.zeros(1 + 2 * CENTRES, dtype=torch.float64)
        arithmetic[0] = PADDING
        self.weights = nn.Parameter(arithmetic)
        self.register_buffer("trust", torch.zeros((), dtype=torch.float64))

    def likeness(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return whether features are alike, and whether they are of the same node.

        Of (r, width) standardized features and the centres, (r, centres) float64 each; of the same
        node under the same layouts, or some of them.
        """
        gaps = [self._gaps(features[:, mask], self.centres[:, mask]) for mask in self.compared]
        alike = torch.exp(gaps[0] / (-2 * ALIKE**2))
        same = torch.stack([torch.exp(gap / (-2 * SAME**2)) for gap in gaps])
        return alike, same.mean(dim=0)

    def _gaps(self, features: Tensor, centres: Tensor) -> Tensor:
        """Squared distances of (r, some) and (c, some) features, over how many there are in all."""
        return torch.cdist(features.double(), centres.double()).square() / self.centres.shape[1]

    def parts(self, batch: PricedBatch) -> Tensor:
        """Return the factor of each weight, (r, weights) float64."""
        share = batch.share.double()[:, None]
        alike, same = self.likeness(self.standardize(batch.features))
        return torch.cat([share * batch.padding.double()[:, None], share * alike, same], dim=1)

    def prices(self, batch: PricedBatch) -> Tensor:
        """Return prices of each node under each of the batch's configurations, (b, k) float64."""
        parts = self.parts(batch)
        arithmetic = PADDING * parts[:, 0]
        seen = parts[:, 1 + CENTRES :].amax(dim=1) > SEEN
        trust = torch.where(seen, 1.0, self.trust)
        return (arithmetic + trust * (parts @ self.weights - arithmetic))[batch.places]

    def forward(self, batch: PricedBatch) -> Tensor:
        """Scores of the batch's configurations, (b,) float64."""
        return self.prices(batch).sum(dim=1)
