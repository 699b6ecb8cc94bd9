"""TGraph+: costs of what a configuration makes a compiler do, learned and summed.

TGraph has to learn from digits what a layout is, and from normalized vectors what a tensor weighs.
Here that is worked out beforehand (:mod:`lib.compiler.cpu.resolved`): which tensors are copied from
one layout to another, which operations work in another layout than the program's own, and which a
library computes more than once. The network learns what each costs for its size and where it stands
in the program, and a configuration's score is the sum, as a program's runtime is that of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from lib import native
from lib.models.activation import gelu_dropout
from lib.models.batch import OnDevice
from lib.models.members import Linears, Perceptrons, linears
from lib.models.prices import Prices
from lib.models.rows import GraphBatch, Standardize
from lib.models.tgraph import GraphStates
from lib.settings import PlusSettings

LARGEST_LOGARITHM = 8.0  # of a cost a byte, so that nothing overflows early in training


@dataclass(frozen=True)
class EffectBatch(OnDevice):
    """Effects of one kind under some configurations.

    Attributes:
        features: (m, features) float32, of each distinct effect.
        sizes: (m,) float32, bytes or work, over the bytes of the program.
        places: (p, 2) int64 pairs [configuration, effect].
        ends: (p, 2) int64, where each pair happens: two of the batch's cells.
    """

    features: Tensor
    sizes: Tensor
    places: Tensor
    ends: Tensor


@dataclass(frozen=True)
class CostBatch(OnDevice):
    """What b configurations of one program make a compiler do.

    Attributes:
        effects: layout copies, off-layout operations and repeated operations.
        nodes: (r,) int64, the node of each cell: a node under a configuration that changes
            something there.
        program: all nodes, under the configuration that sets nothing.
        configurations: b.
    """

    effects: list[EffectBatch]
    nodes: Tensor
    program: GraphBatch
    configurations: int


class TGraphPlus(nn.Module):
    """Scores: sums of learned costs a byte times bytes; lower means faster.

    On a CPU a copy never makes a program faster, so its cost is positive, and since costs a byte
    span orders of magnitude, their logarithms are learned. An off-layout operation's cost may be of
    either sign, since what it is compared with is the same operation in the program's own layout.
    What a library call computes again costs in proportion to the work, and is never a gain.
    Scores are comparable within one graph and do not depend on which configurations share a batch.

    What an effect costs depends on what surrounds it. TGraph's blocks over the program tell of
    that, and so do the other effects at the two nodes that it happens at. A few networks that
    differ in their initial weights and their dropout are trained side by side, each on its own
    scores; their mean is taken to rank. They read the same blocks.

    Args:
        widths: features of a layout copy, of an off-layout operation, and of an operation that a
            library call computes more than once.
        channels: width of the perceptrons.
        dropout: share of their channels left out in training.
        members: networks side by side.
        context_blocks, context_channels: of the blocks.
        context_dropout: share of a node's channels left out in training.
    """

    kinds: Sequence[EffectCosts]

    def __init__(
        self,
        widths: Sequence[int],
        channels: int = 32,
        dropout: float = 0.0,
        members: int = 1,
        context_blocks: int = 2,
        context_channels: int = 32,
        context_dropout: float = 0.3,
    ):
        super().__init__()
        self.states = GraphStates(context_channels, context_blocks, dropout=context_dropout)
        sizes = context_channels, channels, dropout
        self.kinds = nn.ModuleList(  # type: ignore[assignment]
            EffectCosts(members, width, *sizes, positive=positive)
            for width, positive in zip(widths, (True, False, True), strict=True)
        )
        self.dropout = context_dropout

    @classmethod
    def from_settings(cls, settings: PlusSettings, **widths: Any) -> TGraphPlus | Prices:
        """The network with the sizes that the settings name; another one of TPUs."""
        if settings.hardware == "tpu":
            return Prices(**widths)
        return cls(
            **widths,
            channels=settings.channels,
            dropout=settings.dropout,
            members=settings.members,
            context_blocks=settings.context_blocks,
            context_channels=settings.context_channels,
            context_dropout=settings.context_dropout,
        )

    def runs_native(self, like: Tensor) -> bool:
        """Whether compiled loops are among what computes it, of this tensor's type and device."""
        return native.takes(like)

    def forward(self, batch: CostBatch) -> Tensor:
        """Scores of the batch's configurations: (b,) float32, (members, b) while training."""
        read = [
            (kind, effects, kind.standardize(effects.features))
            for kind, effects in zip(self.kinds, batch.effects, strict=True)
        ]
        cells = self.states(batch.program)[batch.nodes, 0]  # (r, channels)
        told = sum(kind.told(features, effects, len(cells)) for kind, effects, features in read)
        heard = nn.functional.layer_norm(cells + told, cells.shape[1:])  # (members, r, channels)
        heard = gelu_dropout(heard, self.dropout, self.training)
        scores = sum(
            kind(features, effects, heard, batch.configurations) for kind, effects, features in read
        )
        return scores if self.training else scores.mean(dim=0)


class EffectCosts(nn.Module):
    """What effects of one kind cost, alone and where they happen.

    Args:
        members: networks side by side.
        width: features of an effect.
        around: channels of what is heard where it happens.
        channels, dropout: of the perceptrons.
        positive: whether logarithms of costs are learned.
    """

    def __init__(
        self,
        members: int,
        width: int,
        around: int,
        channels: int,
        dropout: float,
        positive: bool,
    ):
        super().__init__()
        self.positive = positive
        self.standardize = Standardize(width)
        self.alone = Perceptrons(members, width, channels, dropout)
        self.tells = nn.ModuleList(Linears(members, width, around, bias=False) for _ in range(2))
        self.widths = width, around, around
        self.there = Perceptrons(members, sum(self.widths), channels, dropout)
        nn.init.zeros_(self.there.last.weight)
        nn.init.zeros_(self.there.last.bias)

    def told(self, features: Tensor, effects: EffectBatch, cells: int) -> Tensor:
        """What effects tell the cells at both of their ends, (members, cells, around)."""
        which = effects.places[:, 1]
        parts = [tell(features).index_select(1, which) for tell in self.tells]
        total = parts[0].new_zeros(len(parts[0]), cells, parts[0].shape[2])
        for part, end in zip(parts, effects.ends.unbind(dim=1), strict=True):
            total = total.index_add(1, end, part)
        return total

    def forward(
        self, features: Tensor, effects: EffectBatch, heard: Tensor, configurations: int
    ) -> Tensor:
        """Sums of costs, (members, configurations).

        Args:
            features: (m, width), standardized.
            effects: whose they are.
            heard: (members, cells, around).
            configurations: b.
        """
        column, which = effects.places.unbind(dim=1)
        first = self.there.first
        parts = first.weight.split(self.widths, dim=2)
        # The first layer is linear: of each effect and each cell it is computed once.
        read = linears(features, parts[0], first.bias).index_select(1, which)
        for part, end in zip(parts[1:], effects.ends.unbind(dim=1), strict=True):
            read = read + linears(heard, part).index_select(1, end)
        costs = self.alone(features).index_select(1, which) + self.there.rest(read)
        costs = costs.clamp(max=LARGEST_LOGARITHM).exp() if self.positive else costs
        total = costs.new_zeros(len(costs), configurations)
        return total.index_add(1, column, costs * effects.sizes[which])
