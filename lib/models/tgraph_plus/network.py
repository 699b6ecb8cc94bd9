"""TGraph+: costs of what a configuration makes a compiler do, learned and summed.

TGraph has to learn from digits what a layout is, and from normalized vectors what a tensor weighs.
Here that is worked out beforehand (:mod:`lib.compiler.cpu.resolved`): which tensors are copied from
one layout to another, which operations work in another layout than the program's own, and which a
library computes more than once. The network learns what each costs for its size and where it stands
in the program, and a configuration's score is the sum, as a program's runtime is that of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lib import native
from lib.models.common.activation import gelu_dropout
from lib.models.common.batch import OnDevice
from lib.models.common.rows import GraphBatch, Standardize
from lib.models.tgraph.network import GraphStates

LARGEST_LOGARITHM = 8.0  # of a cost a byte, so that nothing overflows early in training
POSITIVE = True, False, True  # kinds whose costs' logarithms are learned


@dataclass(frozen=True)
class CostBatch(OnDevice):
    """Effects of b configurations of one program.

    Attributes:
        kinds: (m,) int64, of each distinct effect: 0 for layout copies, 1 for off-layout
            operations, 2 for repeated ones.
        features: (m, width) float32, in the columns of its kind; the others are not read.
        sizes: (m,) float32, bytes or work, over the bytes of the program.
        places: (p, 2) int64 pairs [configuration, effect].
        ends: (p, 2) int64, where each pair happens: two of the batch's cells.
        nodes: (r,) int64, the node of each cell: a node under a configuration that changes
            something there.
        program: all nodes, under the configuration that sets nothing.
        configurations: b.
    """

    kinds: Tensor
    features: Tensor
    sizes: Tensor
    places: Tensor
    ends: Tensor
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

    positive: Tensor

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
        self.effects = EffectVectors(widths)
        # Of an effect: its part of the perceptron's first layer, and messages to its two ends.
        self.parts = channels, 2 * context_channels
        self.reads = Linears(members, self.effects.width, sum(self.parts), bias=False)
        # The other part of that layer, of a cell that is a first end and one that is a second.
        self.hears = Linears(members, context_channels, 2 * channels, bias=False)
        nn.init.zeros_(self.hears.weight)  # a new network's costs are those of effects alone
        self.perceptron = Perceptrons(members, channels, dropout)
        self.register_buffer("positive", torch.tensor(POSITIVE), persistent=False)
        self.dropout = context_dropout

    def runs_native(self, like: Tensor) -> bool:
        """Return whether compiled loops compute a part, for this tensor's type and device."""
        return native.takes(like)

    def forward(self, batch: CostBatch) -> Tensor:
        """Scores of the batch's configurations: (b,) float32, (members, b) while training."""
        costs = self.costs(batch)
        total = costs.new_zeros(len(costs), batch.configurations)
        scores = total.index_add(1, batch.places[:, 0], costs)
        return scores if self.training else scores.mean(dim=0)

    def costs(self, batch: CostBatch) -> Tensor:
        """Return the cost of each pair of a configuration and an effect, (members, p)."""
        which = batch.places[:, 1]
        read = self.reads(self.effects(batch.features, batch.kinds))
        own, messages = (part.index_select(1, which) for part in read.split(self.parts, dim=2))
        costs = self.perceptron(own + self._aggregated(batch, messages))
        positive = self.positive.index_select(0, batch.kinds).index_select(0, which)
        costs = torch.where(positive, costs.clamp(max=LARGEST_LOGARITHM).exp(), costs)
        return costs * batch.sizes.index_select(0, which)

    def alone(self, vectors: Tensor) -> Tensor:
        """Costs of effects that stand in no program, (members, m), from their vectors."""
        return self.perceptron(self.reads(vectors)[..., : self.parts[0]])

    def _aggregated(self, batch: CostBatch, messages: Tensor) -> Tensor:
        """Aggregate at both ends of each pair the states and all messages there, (members, p,
        channels); ``messages`` are (members, p, 2 * context channels)."""
        members, pairs, channels = len(messages), len(batch.ends), self.parts[0]
        cells = self.states(batch.program).squeeze(1).index_select(0, batch.nodes)  # (r, channels)
        messages = messages.reshape(members, 2 * pairs, cells.shape[1])
        total = messages.new_zeros(members, *cells.shape)
        total = total.index_add(1, batch.ends.flatten(), messages)
        sums = nn.functional.layer_norm(cells + total, cells.shape[1:])
        sums = self.hears(gelu_dropout(sums, self.dropout, self.training))
        sums = sums.view(members, 2 * len(cells), channels)
        sides = 2 * batch.ends + torch.arange(2, device=batch.ends.device)
        return sums.index_select(1, sides.flatten()).view(members, pairs, 2, channels).sum(2)


class Linears(nn.Module):
    """A linear layer of each member: y = W x + b, with weights as ``nn.Linear`` draws them.

    What a member computes is small, and a call of a library's function costs as much as the work in
    it; so members are the first dimension of weights and of what is computed.

    Args:
        members: how many.
        width: of x.
        channels: of y.
        bias: whether there is b.
    """

    def __init__(self, members: int, width: int, channels: int, bias: bool = True):
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(members, channels, width).uniform_(-bound, bound))
        self.bias = None
        if bias:
            self.bias = nn.Parameter(torch.empty(members, channels).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """(members, n, channels) from (members, n, width), or from (n, width) that all read."""
        x, weight = x.expand(len(self.weight), -1, -1), self.weight.transpose(1, 2)
        if self.bias is None:
            return torch.bmm(x, weight)
        return torch.baddbmm(self.bias[:, None], x, weight)


class Perceptrons(nn.Module):
    """The rest of a perceptron of each member, whose first layer reads what several share: GELU
    and dropout, a second hidden layer, and one number."""

    def __init__(self, members: int, channels: int, dropout: float):
        super().__init__()
        self.second = Linears(members, channels, channels)
        self.last = Linears(members, channels, 1)
        self.dropout = dropout

    def forward(self, first: Tensor) -> Tensor:
        """(members, n) from the first hidden layer before its GELU, (members, n, channels)."""
        hidden = gelu_dropout(first, self.dropout, self.training)
        hidden = gelu_dropout(self.second(hidden), self.dropout, self.training)
        return self.last(hidden).squeeze(-1)


class EffectVectors(nn.Module):
    """Effects of all kinds as vectors: standardized features in the columns of their kind, zeros
    in those of others, and a one for the kind, so that one layer reads all kinds.

    Args:
        widths: features of an effect of each kind.
    """

    own: Tensor
    one: Tensor

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.width = sum(widths) + len(widths)
        self.standardize = Standardize(sum(widths))
        one = torch.eye(len(widths))
        own = one.repeat_interleave(torch.tensor(widths), dim=1)  # (kinds, all features)
        self.register_buffer("one", one, persistent=False)
        self.register_buffer("own", own, persistent=False)

    def fit(self, features: Tensor, kinds: Tensor) -> None:
        """Standardize the features of a kind by the effects of that kind alone.

        Args:
            features, kinds: as :class:`CostBatch` has them.
        """
        for kind, own in enumerate(self.own.bool()):
            fitted = Standardize(int(own.sum()))
            fitted.fit(features[kinds == kind][:, own])
            self.standardize.mean[own], self.standardize.factor[own] = fitted.mean, fitted.factor

    def forward(self, features: Tensor, kinds: Tensor) -> Tensor:
        """(m, width) from features and kinds as :class:`CostBatch` has them."""
        standardized = self.standardize(features) * self.own.index_select(0, kinds)
        return torch.cat([standardized, self.one.index_select(0, kinds)], dim=1)
