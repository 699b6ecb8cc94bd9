"""TGraph+: costs of what a configuration makes a compiler do, learned and summed.

TGraph has to learn from digits what a layout is, and from normalized vectors what a tensor weighs.
Here that is worked out beforehand: which tensors are copied from one layout to another, which
operations work in another layout than the program's own, and which a library computes more than
once. The network learns what each costs for its size and where it stands in the program, and a
configuration's score is the sum, as a program's runtime is that of its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from lib import native
from lib.models.batch import OnDevice
from lib.models.context import Context, ContextBatch, rows_of
from lib.models.members import Perceptrons, linears
from lib.models.prices import Prices
from lib.models.rows import Standardize
from lib.settings import PlusSettings

LARGEST_LOGARITHM = 8.0  # of a cost a byte, so that nothing overflows early in training


@dataclass(frozen=True)
class CostBatch(OnDevice):
    """What b configurations of one graph do: m layout copies and s off-layout operations.

    Attributes:
        copies: (m, features) float32, each distinct layout copy once.
        copy_bytes: (m,) float32, bytes of the copied tensor over those of the program.
        off_layout: (s, features) float32, each distinct off-layout operation once.
        off_layout_bytes: (s,) float32, likewise of the operation's output.
        off_layout_places: (q, 2) int64, pairs [configuration, operation].
        repeated: (j, features) float32, each distinct operation that a library call computes more
            than once.
        repeated_work: (j,) float32, what is computed too often, over the bytes of the program.
        repeated_places: (r, 2) int64, pairs [configuration, repeated operation].
        configurations: b.
        context: what surrounds them, and which configuration has which layout copy.
    """

    copies: Tensor
    copy_bytes: Tensor
    off_layout: Tensor
    off_layout_bytes: Tensor
    off_layout_places: Tensor
    repeated: Tensor
    repeated_work: Tensor
    repeated_places: Tensor
    configurations: int
    context: ContextBatch


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

    What a copy costs depends on what surrounds it, of which blocks of GraphSAGE over the program
    tell. A few networks that differ in their initial weights and their dropout are trained side by
    side, each on its own scores; their mean is taken to rank.

    Args:
        copy_width, off_layout_width: features of a layout copy, and of an off-layout operation.
        repeated_width: features of an operation that a library call computes more than once.
        node_width: features of a node.
        channels: width of the perceptrons.
        dropout: share of their channels left out in training.
        members: networks side by side.
        context_blocks, context_channels, context_dropout: see
            :class:`lib.models.context.Context`.
    """

    def __init__(
        self,
        copy_width: int,
        off_layout_width: int,
        repeated_width: int,
        node_width: int,
        channels: int = 32,
        dropout: float = 0.0,
        members: int = 1,
        context_blocks: int = 2,
        context_channels: int = 16,
        context_dropout: float = 0.3,
    ):
        super().__init__()
        self.inputs = CostInputs(copy_width, off_layout_width, repeated_width)
        sizes = channels, dropout
        self.copy_cost = Perceptrons(members, copy_width, *sizes)
        self.off_layout_cost = Perceptrons(members, off_layout_width, *sizes)
        self.repeated_cost = Perceptrons(members, repeated_width, *sizes)
        widths = node_width, copy_width, off_layout_width
        around = context_channels, context_blocks, context_dropout
        self.context = Context(members, *widths, *around)
        self.addend = Addends(members, copy_width, context_channels, *sizes)

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
        batch = self.inputs(batch)
        scores = self.of_copies(batch) + self.of_others(batch)
        return scores if self.training else scores.mean(dim=0)

    def of_copies(self, batch: CostBatch) -> Tensor:
        """What the copies of a standardized batch cost, (members, b)."""
        costs, _ = self.costs_around(batch)
        return self.summed(costs, batch.context.copy_places, batch)

    def costs_around(self, batch: CostBatch) -> tuple[Tensor, Tensor]:
        """Costs of the copies of a standardized batch in their surroundings, and states of rows.

        Returns:
            (members, copies in distinct surroundings) and (r, members, channels).
        """
        learned = self.copy_cost(batch.copies)
        states = self.context(batch.copies, batch.off_layout, batch.context)
        which = batch.context.copies[:, 0]
        heard = self.addend(batch.copies, states, batch.context.copies)
        costs = _exponential(learned.index_select(1, which) + heard)
        return costs * batch.copy_bytes[which], states

    def of_others(self, batch: CostBatch) -> Tensor:
        """What all else of a standardized batch costs, (members, b)."""
        costs = self.off_layout_cost(batch.off_layout) * batch.off_layout_bytes
        total = self.summed(costs, batch.off_layout_places, batch)
        costs = _exponential(self.repeated_cost(batch.repeated)) * batch.repeated_work
        return total + self.summed(costs, batch.repeated_places, batch)

    @staticmethod
    def summed(costs: Tensor, places: Tensor, batch: CostBatch) -> Tensor:
        """(members, b): sums of (members, m) costs at (p, 2) places [configuration, which]."""
        total = costs.new_zeros(len(costs), batch.configurations)
        return total.index_add(1, places[:, 0], costs.index_select(1, places[:, 1]))


class Addends(nn.Module):
    """What surrounds a copy adds to what is learned of it: a factor, where costs are positive.

    A perceptron of each member on the copy, and on the states of its tensor and of the node that
    it happens for. It starts at zero.

    Args:
        members: networks side by side.
        copy_width: features of a copy.
        states: channels of a state.
        channels, dropout: of the perceptrons.
    """

    def __init__(self, members: int, copy_width: int, states: int, channels: int, dropout: float):
        super().__init__()
        self.widths = copy_width, states, states
        self.perceptrons = Perceptrons(members, sum(self.widths), channels, dropout)
        nn.init.zeros_(self.perceptrons.last.weight)
        nn.init.zeros_(self.perceptrons.last.bias)

    def forward(self, copies: Tensor, states: Tensor, places: Tensor) -> Tensor:
        """(members, p): of copies (m, features) and states (r, members, channels) at (p, 3) places
        [copy, state of its tensor, state of its reader].

        The first layer is linear: of each copy and each state it is computed once, then gathered.
        """
        first = self.perceptrons.first
        parts = first.weight.split(self.widths, dim=2)
        read = copies, *2 * [states.transpose(0, 1)]
        heard = sum(
            rows_of(linears(x, part)).index_select(0, place)
            for x, part, place in zip(read, parts, places.unbind(dim=1), strict=True)
        )
        heard = heard.unflatten(1, first.bias.shape) + first.bias
        return self.perceptrons.rest(heard.transpose(0, 1))


def _exponential(logarithms: Tensor) -> Tensor:
    return logarithms.clamp(max=LARGEST_LOGARITHM).exp()
