"""Networks of kinds that are in no library here, as one would write them: a step of GPT-2 with its
cache, a U-Net, and a decoder of sound with transposed convolutions."""

from __future__ import annotations

import importlib

import torch
from torch import Tensor, nn

from lib.collect.tvm.networks import named

TOKENS = 128  # that a step of GPT-2 has before it
Built = tuple[nn.Module, tuple[Tensor, ...]]


class Step(nn.Module):
    """A step of GPT-2: a token, and keys and values of those before it, to what comes next."""

    def __init__(self):
        super().__init__()
        self.model = named("transformers:gpt2", 1).build()[0].model
        self.cache = importlib.import_module("transformers.cache_utils").DynamicCache

    def forward(self, token: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """Return (b, 1, words), and keys and values (b, heads, TOKENS + 1, width) of each layer."""
        pairs = [*zip(states[::2], states[1::2], strict=True)]
        mask = torch.ones(token.shape[0], TOKENS + 1, dtype=torch.long)
        positions = torch.full_like(token, TOKENS)
        cache = self.cache(pairs)
        how = {"attention_mask": mask, "position_ids": positions, "use_cache": True}
        hidden = self.model(token, cache, **how).last_hidden_state
        words = nn.functional.linear(hidden, self.model.wte.weight)
        return words, *(x for layer in cache.layers for x in (layer.keys, layer.values))


def gpt2_step(batch: int = 1) -> Built:
    """The step, a token, and twelve layers' keys and values."""
    states = (torch.randn(batch, 12, TOKENS, 64) for _ in range(24))
    return Step().eval(), (torch.randint(0, 50257, (batch, 1)), *states)


def double(inputs: int, outputs: int) -> nn.Sequential:
    """Two convolutions, as each step of a U-Net has them."""
    layers: list[nn.Module] = []
    for width in (inputs, outputs):
        layers += [nn.Conv2d(width, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Five sizes of an image, down and up again, with what was there on the way down."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64, 128, 256)):
        super().__init__()
        self.down = nn.ModuleList(map(double, (3, *widths[:-1]), widths))
        pairs = [*zip(widths[:0:-1], widths[-2::-1], strict=True)]
        self.wider = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(double(2 * b, b) for _, b in pairs)
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(b, 3, h, w) to (b, 2, h, w)."""
        before = []
        for layer in self.down:
            x = layer(nn.functional.max_pool2d(x, 2) if before else x)
            before.append(x)
        for wider, layer, there in zip(self.wider, self.up, before[-2::-1], strict=True):
            x = layer(torch.cat([there, wider(x)], 1))
        return self.last(x)


def unet(batch: int = 1) -> Built:
    """The U-Net, and an image of 128 by 128."""
    return UNet().eval(), (torch.randn(batch, 3, 128, 128),)


class Residual(nn.Module):
    """Two convolutions, the first with a dilation, and what they are added to."""

    def __init__(self, width: int, dilation: int):
        super().__init__()
        self.first = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.second = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(b, width, n) of the same."""
        inner = self.first(nn.functional.leaky_relu(x, 0.1))
        return x + self.second(nn.functional.leaky_relu(inner, 0.1))


def vocoder(batch: int = 1) -> Built:
    """A decoder as HiFi-GAN's, and 32 frames of a spectrogram, of which it makes 4,096 samples."""
    layers: list[nn.Module] = [nn.Conv1d(80, 128, 7, padding=3)]
    for width, stride in ((128, 8), (64, 8), (32, 2)):
        wider = nn.ConvTranspose1d(width, width // 2, 2 * stride, stride, padding=stride // 2)
        residuals = (Residual(width // 2, dilation) for dilation in (1, 3))
        layers += [nn.LeakyReLU(0.1), wider, *residuals]
    layers += [nn.LeakyReLU(0.1), nn.Conv1d(16, 1, 7, padding=3), nn.Tanh()]
    return nn.Sequential(*layers).eval(), (torch.randn(batch, 80, 32),)
