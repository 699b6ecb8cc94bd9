"""Layers of a few small networks that are trained side by side: one call for all of them.

Each network is a member, with weights of its own. What a member computes is small, and a call of a
library's function costs as much as the work in it; so members are the first dimension of weights
and of what is computed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lib.models.common.activation import gelu_dropout


class Linears(nn.Module):
    """A linear layer of each member: y = W x + b, with weights as ``nn.Linear`` draws them.

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
