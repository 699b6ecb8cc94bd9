"""TGraph+: costs of what a configuration makes a compiler do, learned and summed.

TGraph has to learn from digits what a layout is, and from normalized vectors what a tensor weighs.
Here that is worked out beforehand: which tensors are copied from one layout to another, which
operations work in another layout than the program's own, and which a library computes more than
once. The network learns what each costs for its size, and a configuration's score is the sum, as a
program's runtime is that of its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lib.models.batch import OnDevice
from lib.models.context import Context, ContextBatch
from lib.models.inputs import Standardize
from lib.models.scatter import added_at
from lib.settings import PlusSettings

LARGEST_LOGARITHM = 8.0  # of a cost a byte, so that nothing overflows early in training


@dataclass(frozen=True)
class CostBatch(OnDevice):
    """What b configurations of one graph do: m layout copies and s off-layout operations.

    Attributes:
        copies: (m, features) float32, each distinct layout copy once.
        copy_bytes: (m,) float32, bytes of the copied tensor over those of the program.
        copy_places: (p, 2) int64, pairs [configuration, copy].
        off_layout: (s, features) float32, each distinct off-layout operation once.
        off_layout_bytes: (s,) float32, likewise of the operation's output.
        off_layout_places: (q, 2) int64, pairs [configuration, operation].
        repeated: (j, features) float32, each distinct operation that a library call computes more
            than once.
        repeated_work: (j,) float32, what is computed too often, over the bytes of the program.
        repeated_places: (r, 2) int64, pairs [configuration, repeated operation].
        configurations: b.
        context: what surrounds them, if a member hears it.
    """

    copies: Tensor
    copy_bytes: Tensor
    copy_places: Tensor
    off_layout: Tensor
    off_layout_bytes: Tensor
    off_layout_places: Tensor
    repeated: Tensor
    repeated_work: Tensor
    repeated_places: Tensor
    configurations: int
    context: ContextBatch | None = None


class CostInputs(nn.Module):
    """Standardization of all sets of features, fitted on the training graphs."""

    def __init__(self, copy_width: int, off_layout_width: int, repeated_width: int):
        super().__init__()
        self.copies = Standardize(copy_width)
        self.off_layout = Standardize(off_layout_width)
        self.repeated = Standardize(repeated_width)

    def forward(self, batch: CostBatch) -> CostBatch:
        """A batch with its features standardized."""
        return replace(
            batch,
            copies=self.copies(batch.copies),
            off_layout=self.off_layout(batch.off_layout),
            repeated=self.repeated(batch.repeated),
        )


class TGraphPlus(nn.Module):
    """Scores: sums of learned costs a byte times bytes; lower means faster.

    On a CPU a copy never makes a program faster, so its cost is positive, and since costs a byte
    span orders of magnitude, their logarithms are learned. An off-layout operation's cost may be of
    either sign, since what it is compared with is the same operation in the program's own layout.
    What a library call computes again costs in proportion to the work, and is never a gain.
    Scores are comparable within one graph and do not depend on which configurations share a batch.

    A few networks that differ in their initial weights and their dropout are trained side by side,
    each on its own scores; their mean is taken to rank. Some of them hear what surrounds a copy:
    the two kinds err differently, and their mean is better than either.

    Args:
        copy_width, off_layout_width: features of a layout copy, and of an off-layout operation.
        repeated_width: features of an operation that a library call computes more than once; 0
            where there are no such calls.
        copies_cost: whether a copy never makes a program faster; else its cost is learned like
            an operation's, of either sign.
        channels: width of the perceptrons.
        dropout: share of their channels left out in training.
        members: networks side by side that sum costs of copies by themselves.
        node_width: features of a node, if a member hears what surrounds copies.
        context_members: networks beside those, which hear it.
        context_blocks, context_channels, context_dropout: of these, see
            :class:`lib.models.context.Context`.
    """

    def __init__(
        self,
        copy_width: int,
        off_layout_width: int,
        repeated_width: int = 0,
        copies_cost: bool = True,
        channels: int = 32,
        dropout: float = 0.0,
        members: int = 1,
        node_width: int = 0,
        context_members: int = 0,
        context_blocks: int = 2,
        context_channels: int = 16,
        context_dropout: float = 0.3,
    ):
        super().__init__()
        widths = copy_width, off_layout_width, repeated_width
        self.inputs = CostInputs(*widths)
        sizes = CostSizes(*widths, copies_cost, channels, dropout)
        additive = [Costs(sizes) for _ in range(members)]
        around = (node_width, context_channels, context_blocks, context_dropout)
        hearing = [ContextCosts(sizes, *around) for _ in range(context_members)]
        self.members = nn.ModuleList([*additive, *hearing])

    @classmethod
    def from_settings(cls, settings: PlusSettings, *, node_width: int, **widths: int) -> TGraphPlus:
        """The network with the sizes that the settings name."""
        return cls(
            **widths,
            copies_cost=settings.hardware == "cpu",
            channels=settings.channels,
            dropout=settings.dropout,
            members=settings.members,
            node_width=node_width,
            context_members=settings.context_members,
            context_blocks=settings.context_blocks,
            context_channels=settings.context_channels,
            context_dropout=settings.context_dropout,
        )

    def forward(self, batch: CostBatch) -> Tensor:
        """Scores of the batch's configurations: (b,) float32, (members, b) while training."""
        standardized = self.inputs(batch)
        scores = torch.stack([member(standardized) for member in self.members])
        return scores if self.training else scores.mean(dim=0)


class CostSizes(NamedTuple):
    """What each network of :class:`TGraphPlus` is made by; its arguments of the same names."""

    copy_width: int
    off_layout_width: int
    repeated_width: int
    copies_cost: bool
    channels: int
    dropout: float


class Costs(nn.Module):
    """One network of :class:`TGraphPlus`: perceptrons for copies, operations and repeated work."""

    def __init__(self, sizes: CostSizes):
        super().__init__()
        self.copies_cost = sizes.copies_cost
        self.copy_cost = _perceptron(sizes.copy_width, sizes.channels, sizes.dropout)
        self.off_layout_cost = _perceptron(sizes.off_layout_width, sizes.channels, sizes.dropout)
        self.repeated_cost = None
        if sizes.repeated_width:
            self.repeated_cost = _perceptron(sizes.repeated_width, sizes.channels, sizes.dropout)

    def forward(self, batch: CostBatch) -> Tensor:
        """Scores of a standardized batch, (b,)."""
        of_copies = self.costs_of_copies(self.copy_cost(batch.copies)) * batch.copy_bytes
        return self.summed(of_copies, batch.copy_places, batch)

    def costs_of_copies(self, learned: Tensor) -> Tensor:
        """Costs a byte, (m,), from what was learned of them, (m, 1): their logarithms, if any."""
        if self.copies_cost:
            learned = learned.clamp(max=LARGEST_LOGARITHM).exp()
        return learned.squeeze(-1)

    def summed(self, of_copies: Tensor, places: Tensor, batch: CostBatch) -> Tensor:
        """Scores, (b,): costs of copies at (p, 2) places [configuration, copy], and all others."""
        of_operations = self.off_layout_cost(batch.off_layout).squeeze(-1) * batch.off_layout_bytes
        total = added_at(of_copies.new_zeros(batch.configurations), of_copies, places)
        total = added_at(total, of_operations, batch.off_layout_places)
        if self.repeated_cost is None:
            return total
        learned = self.repeated_cost(batch.repeated).squeeze(-1)
        of_repeated = learned.clamp(max=LARGEST_LOGARITHM).exp() * batch.repeated_work
        return added_at(total, of_repeated, batch.repeated_places)


class ContextCosts(Costs):
    """One that hears what surrounds copies (:mod:`lib.models.context`).

    What is learned of a copy alone has an addend, from the states of its tensor and of the node
    that it happens for: a factor on its cost, where costs are positive. It starts at zero.
    """

    def __init__(
        self, sizes: CostSizes, node_width: int, channels: int, blocks: int, dropout: float
    ):
        super().__init__(sizes)
        widths = (node_width, sizes.copy_width, sizes.off_layout_width)
        self.context = Context(*widths, channels, blocks, dropout)
        heard = sizes.copy_width + 2 * channels
        self.addend = _perceptron(heard, sizes.channels, sizes.dropout)
        nn.init.zeros_(self.addend[-1].weight)
        nn.init.zeros_(self.addend[-1].bias)

    def forward(self, batch: CostBatch) -> Tensor:
        """See :meth:`Costs.forward`."""
        of_copies, _ = self.costs(batch)
        return self.summed(of_copies, batch.context.copy_places, batch)

    def costs(self, batch: CostBatch) -> tuple[Tensor, Tensor]:
        """Costs of copies in their surroundings, (m,), and states of rows, (r, channels)."""
        states = self.context(batch.copies, batch.off_layout, batch.context)
        which, tensor, reader = batch.context.copies.unbind(dim=1)
        heard = torch.cat([batch.copies[which], states[tensor], states[reader]], dim=1)
        of_copies = self.costs_of_copies(self.copy_cost(batch.copies)[which] + self.addend(heard))
        return of_copies * batch.copy_bytes[which], states


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
