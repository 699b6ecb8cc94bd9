"""TGraph+: costs of what a configuration makes a compiler do, learned and summed.

TGraph has to learn from digits what a layout is, and from normalized vectors what a tensor weighs.
Here that is worked out beforehand: which tensors are copied from one layout to another, and which
operations work in another layout than the program's own. The network learns what either costs a
byte, and a configuration's score is the sum, as a program's runtime is that of its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from lib.models.inputs import Standardize
from lib.settings import PlusSettings

LARGEST_LOGARITHM = 8.0  # of a cost a byte, so that nothing overflows early in training


@dataclass(frozen=True)
class CostBatch:
    """What b configurations of one graph do: m layout copies and s off-layout operations.

    Attributes:
        copies: (m, features) float32, each distinct layout copy once.
        copy_bytes: (m,) float32, bytes of the copied tensor over those of the program.
        copy_places: (p, 2) int64, pairs [configuration, copy].
        off_layout: (s, features) float32, each distinct off-layout operation once.
        off_layout_bytes: (s,) float32, likewise of the operation's output.
        off_layout_places: (q, 2) int64, pairs [configuration, operation].
        configurations: b.
    """

    copies: Tensor
    copy_bytes: Tensor
    copy_places: Tensor
    off_layout: Tensor
    off_layout_bytes: Tensor
    off_layout_places: Tensor
    configurations: int

    def to(self, device: torch.device | str) -> CostBatch:
        """The same batch on another device."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        moved = {
            name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
            for name, value in values.items()
        }
        return CostBatch(**moved)


class CostInputs(nn.Module):
    """Standardization of both sets of features, fitted on the training graphs."""

    def __init__(self, copy_width: int, off_layout_width: int):
        super().__init__()
        self.copies = Standardize(copy_width)
        self.off_layout = Standardize(off_layout_width)


class TGraphPlus(nn.Module):
    """Scores: sums of learned costs a byte times bytes; lower means faster.

    On a CPU a copy never makes a program faster, so its cost is positive, and since costs a byte
    span orders of magnitude, their logarithms are learned. An off-layout operation's cost may be of
    either sign, since what it is compared with is the same operation in the program's own layout.
    Scores are comparable within one graph and do not depend on which configurations share a batch.

    A few networks that differ in their initial weights and their dropout are trained side by side,
    each on its own scores; their mean is taken to rank.

    Args:
        copy_width, off_layout_width: features of a layout copy, and of an off-layout operation.
        copies_cost: whether a copy never makes a program faster; else its cost is learned like
            an operation's, of either sign.
        channels: width of the perceptrons.
        dropout: share of their channels left out in training.
        members: networks side by side.
    """

    def __init__(
        self,
        copy_width: int,
        off_layout_width: int,
        copies_cost: bool = True,
        channels: int = 32,
        dropout: float = 0.0,
        members: int = 1,
    ):
        super().__init__()
        self.inputs = CostInputs(copy_width, off_layout_width)
        self.members = nn.ModuleList(
            Costs(copy_width, off_layout_width, copies_cost, channels, dropout)
            for _ in range(members)
        )

    @classmethod
    def from_settings(
        cls, settings: PlusSettings, *, copy_width: int, off_layout_width: int
    ) -> TGraphPlus:
        """The network with the sizes that the settings name."""
        return cls(
            copy_width,
            off_layout_width,
            copies_cost=settings.hardware == "cpu",
            channels=settings.channels,
            dropout=settings.dropout,
            members=settings.members,
        )

    def forward(self, batch: CostBatch) -> Tensor:
        """Scores of the batch's configurations: (b,) float32, (members, b) while training."""
        copies = self.inputs.copies(batch.copies)
        operations = self.inputs.off_layout(batch.off_layout)
        scores = torch.stack([member(copies, operations, batch) for member in self.members])
        return scores if self.training else scores.mean(dim=0)


class Costs(nn.Module):
    """One network of :class:`TGraphPlus`: two perceptrons, for copies and for operations."""

    def __init__(
        self,
        copy_width: int,
        off_layout_width: int,
        copies_cost: bool,
        channels: int,
        dropout: float,
    ):
        super().__init__()
        self.copies_cost = copies_cost
        self.copy_cost = _perceptron(copy_width, channels, dropout)
        self.off_layout_cost = _perceptron(off_layout_width, channels, dropout)

    def forward(self, copies: Tensor, operations: Tensor, batch: CostBatch) -> Tensor:
        """Scores of a batch, (b,), from its standardized (m, features) and (s, features)."""
        of_copies = self.copy_cost(copies)
        if self.copies_cost:
            of_copies = of_copies.clamp(max=LARGEST_LOGARITHM).exp()
        of_copies = of_copies.squeeze(-1)
        of_operations = self.off_layout_cost(operations).squeeze(-1)
        total = of_copies.new_zeros(batch.configurations)
        total = _added(total, of_copies * batch.copy_bytes, batch.copy_places)
        return _added(total, of_operations * batch.off_layout_bytes, batch.off_layout_places)


def _perceptron(width: int, channels: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width, channels),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(channels, channels),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(channels, 1),
    )


def _added(total: Tensor, costs: Tensor, places: Tensor) -> Tensor:
    """(b,) totals with the costs at (p, 2) places [configuration, position] added."""
    return total.index_add(0, places[:, 0], costs.index_select(0, places[:, 1]))
