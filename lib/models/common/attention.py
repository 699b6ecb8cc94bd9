"""The two attentions of TGraph: across channels and across configurations."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class ChannelSelfAttention(nn.Module):
    """Squeeze-and-excitation of single vectors (TGraph paper, section 2.3.1, equation 5)."""

    def __init__(self, channels: int, squeeze: int):
        super().__init__()
        self.excitation = nn.Linear(channels, channels // squeeze)
        self.squeeze = nn.Linear(channels // squeeze, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(..., channels) to the same shape, each channel scaled by a gate in (0, 1)."""
        return x * torch.sigmoid(self.squeeze(torch.relu(self.excitation(x))))


class ConfigurationCrossAttention(nn.Module):
    """Each configuration weighed against the others of the batch (section 2.3.2, equation 6).

    The learned temperature is kept as its logarithm, so that no step can bring it through zero.
    """

    def __init__(self, temperature: float):
        super().__init__()
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))

    def forward(self, x: Tensor) -> Tensor:
        """(nodes, configurations, channels) to the same shape."""
        return x * torch.softmax(x * torch.exp(-self.log_temperature), dim=1)
