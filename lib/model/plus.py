"""TGraph+: costs of what a configuration makes a compiler do, learned and summed.

TGraph has to learn from digits what a layout is, and from normalized vectors what a tensor weighs.
Here that is worked out beforehand (:mod:`lib.layouts`): which tensors are brought from one order
to another, and which operations run against the grain. The network learns what either costs a
byte, and a configuration's score is the sum, as a program's runtime is that of its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from lib.layouts.rows import MOVE_FEATURES, STATE_FEATURES
from lib.model.inputs import Standardize

LARGEST_LOGARITHM = 8.0  # of a cost a byte, so that nothing overflows early in training


@dataclass(frozen=True)
class CostBatch:
    """What b configurations of one graph do: m distinct moves and s distinct states.

    Attributes:
        moves: (m, features) float32.
        move_bytes: (m,) float32, bytes of the moved tensor over those of the program.
        move_places: (p, 2) int64, rows [configuration, move].
        states: (s, features) float32.
        state_bytes: (s,) float32, likewise of the operation's output.
        state_places: (q, 2) int64, rows [configuration, state].
        configurations: b.
    """

    moves: Tensor
    move_bytes: Tensor
    move_places: Tensor
    states: Tensor
    state_bytes: Tensor
    state_places: Tensor
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
    """Standardization of both kinds of features, fitted on the training graphs."""

    def __init__(self, move_width: int, state_width: int):
        super().__init__()
        self.moves = Standardize(move_width)
        self.states = Standardize(state_width)


class TGraphPlus(nn.Module):
    """Scores: sums of learned costs a byte times bytes; lower means faster.

    A move never makes a program faster, so its cost is positive, and since costs a byte span orders
    of magnitude, their logarithms are learned. A state's cost may be of either sign, since what it
    is compared with is the same operation on the program's own order. Scores are comparable within
    one graph and do not depend on which configurations share a batch.

    A few networks that differ in their initial weights and their dropout are trained side by side,
    each on its own scores; their mean is taken to rank.
    """

    def __init__(
        self,
        move_width: int,
        state_width: int,
        channels: int = 32,
        dropout: float = 0.0,
        members: int = 1,
    ):
        super().__init__()
        self.inputs = CostInputs(move_width, state_width)
        self.members = nn.ModuleList(
            Costs(move_width, state_width, channels, dropout) for _ in range(members)
        )

    @classmethod
    def from_settings(cls, settings) -> TGraphPlus:
        """The network with the widths that the settings name."""
        sizes = settings.channels, settings.dropout, settings.members
        return cls(MOVE_FEATURES, STATE_FEATURES, *sizes)

    def forward(self, batch: CostBatch) -> Tensor:
        """Scores of the batch's configurations: (b,) float32, (members, b) while training."""
        moves, states = self.inputs.moves(batch.moves), self.inputs.states(batch.states)
        scores = torch.stack([member(moves, states, batch) for member in self.members])
        return scores if self.training else scores.mean(dim=0)


class Costs(nn.Module):
    """One network of :class:`TGraphPlus`: a perceptron for moves, and one for states."""

    def __init__(self, move_width: int, state_width: int, channels: int, dropout: float):
        super().__init__()
        self.move_cost = _perceptron(move_width, channels, dropout)
        self.state_cost = _perceptron(state_width, channels, dropout)

    def forward(self, moves: Tensor, states: Tensor, batch: CostBatch) -> Tensor:
        """Scores of a batch, (b,), from its standardized (m, features) and (s, features)."""
        of_moves = self.move_cost(moves).clamp(max=LARGEST_LOGARITHM).exp().squeeze(-1)
        of_states = self.state_cost(states).squeeze(-1)
        total = of_moves.new_zeros(batch.configurations)
        total = _added(total, of_moves * batch.move_bytes, batch.move_places)
        return _added(total, of_states * batch.state_bytes, batch.state_places)


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
    """(b,) totals with the costs of (p, 2) places [configuration, row] added."""
    return total.index_add(0, places[:, 0], costs.index_select(0, places[:, 1]))
