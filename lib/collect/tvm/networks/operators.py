"""Operators alone, and layers of full-sized networks, which others are too small to have."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.collect.tvm.networks import Built, of_sizes
from lib.collect.tvm.networks.blocks import FeedForward, image, tokens
from lib.collect.tvm.networks.language import bert, gpt
from lib.collect.tvm.networks.vision import mobilenet_v2, resnet
from lib.collect.tvm.networks.vision_small import convnext


class Apart(nn.Module):
    """Layers that each read the input and whose results are not put together."""

    def __init__(self, *layers: Callable[[Tensor], Tensor]):
        super().__init__()
        self.layers = layers
        self.modules_of = nn.ModuleList(x for x in layers if isinstance(x, nn.Module))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(layer(x) for layer in self.layers)


def rows(width: int, count: int, batch: int) -> Built:
    """Normalizations, reductions and activations of rows."""
    layers = (
        nn.LayerNorm(width),
        nn.RMSNorm(width),
        lambda x: torch.softmax(x, -1),
        lambda x: torch.log_softmax(x, -1),
        lambda x: x.mean(1),
        lambda x: x.sum(-1),
        lambda x: functional.normalize(x, dim=-1),
        lambda x: functional.gelu(x) * x,
        lambda x: torch.tanh(x) + 1,
        nn.Linear(width, width, False),
    )
    return Apart(*layers), tokens(batch, count, width)


def planes(width: int, size: int, batch: int) -> Built:
    """Normalizations, pools and cheap convolutions of images."""
    layers = (
        nn.BatchNorm2d(width).eval(),
        nn.GroupNorm(8, width),
        nn.InstanceNorm2d(width, affine=True),
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, 2, 1),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        lambda x: functional.interpolate(x, scale_factor=2.0),
        nn.Conv2d(width, width, 3, 1, 1, groups=width),
        nn.Conv2d(width, width, 1),
        nn.Sequential(nn.BatchNorm2d(width).eval(), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1)),
        nn.ConvTranspose2d(width, width // 2, 2, 2),
    )
    module = Apart(*layers)
    x = torch.randn(batch, width, size, size)
    return module.eval(), (x,)


class Normalized(nn.Module):
    """A block of a user's own: norms that cannot be folded, squeezed channels, a residual."""

    def __init__(self, width: int):
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, 1, 1), nn.Conv2d(width, width, 1)
        self.norm, self.batch = nn.GroupNorm(4, width), nn.BatchNorm2d(width)
        self.squeeze = FeedForward(width, max(8, width // 4))

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.silu(self.norm(self.first(x)))
        inner = self.second(functional.relu(self.batch(inner)))
        return x + inner * torch.sigmoid(self.squeeze(inner.mean((2, 3))))[..., None, None]


def normalized(width: int, size: int, batch: int) -> Built:
    """Two blocks with norms that cannot be folded."""
    blocks = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), Normalized(width), Normalized(width))
    return blocks.eval(), image(batch, size)


NETWORKS = (
    *of_sizes("rows", rows, "t", (256, 64, 1), (768, 128, 1), (96, 197, 4), (512, 16, 16)),
    *of_sizes("planes", planes, "s", (32, 56, 1), (64, 28, 4), (128, 14, 1), (16, 112, 1)),
    *of_sizes("normalized", normalized, "s", (32, 64, 1), (64, 56, 1), (16, 96, 4)),
    *of_sizes("resnet18", resnet, "s", (64, 224, 1), extra=((2, 2, 2, 2), False)),
    *of_sizes("resnet50", resnet, "s", (64, 224, 1), extra=((3, 4, 6, 3), True)),
    *of_sizes("mobilenet_v2", mobilenet_v2, "s", (32, 224, 1)),
    *of_sizes("convnext", convnext, "s", (96, 224, 1)),
    *of_sizes("bert", bert, "t", (768, 128, 1, 12), (512, 64, 4, 8)),
    *of_sizes("gpt", gpt, "t", (768, 64, 1, 12)),
)
