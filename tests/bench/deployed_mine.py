"""A network of one's own: batch and group normalization, depthwise convolution, attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Self-attention of four heads with a residual, on the places of an image."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.inputs, self.outputs = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(b, width, h, w) of the same."""
        batch, width, high, wide = x.shape
        rows = self.norm(x).flatten(2).transpose(1, 2)
        split = (batch, high * wide, 3, 4, width // 4)
        queries, keys, values = self.inputs(rows).reshape(split).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values)
        mixed = self.outputs(mixed.transpose(1, 2).reshape(rows.shape))
        return x + mixed.transpose(1, 2).reshape(x.shape)


def network(batch: int = 1) -> tuple[nn.Module, tuple[Tensor]]:
    """The network, and an image of 64 by 64."""

    def layer(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1):
        """A convolution with its normalization and activation."""
        padding = kernel // 2
        inner = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
        return nn.Sequential(inner, nn.BatchNorm2d(outputs), nn.SiLU())

    torch.manual_seed(0)
    layers = nn.Sequential(
        *(layer(3, 32, 3, 2), layer(32, 32, 3, 1, 32), layer(32, 64, 1), layer(64, 64, 3, 2)),
        *(Attention(64), layer(64, 128, 3, 2), Attention(128), layer(128, 256, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100)),
    )
    return layers.eval(), (torch.randn(batch, 3, 64, 64),)
