"""Transformers: encoders, decoders, both, on words and on patches of images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib.collect.tvm.networks import Built, of_sizes
from lib.collect.tvm.networks.blocks import (
    Attention,
    Encoder,
    FeedForward,
    RmsNorm,
    image,
    tokens,
)


def bert(width: int, count: int, batch: int, heads: int) -> Built:
    """An encoder normalized after each layer, and its pooled output (Devlin et al. 2019)."""

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.encoder = Encoder(width, heads, 2, pre=False)
            self.pool = nn.Linear(width, width)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.pool(self.encoder(self.norm(x))[:, 0]))

    return Bert(), tokens(batch, count, width)


def gpt(width: int, count: int, batch: int, heads: int) -> Built:
    """A causal decoder that reads a prompt; the logits of its last token (Radford et al. 2019)."""

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Encoder(width, heads, 2, bias=(count, count))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2000, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.norm(self.encoder(x)[:, -1]))

    return Gpt(), tokens(batch, count, width)


class DecodeStep(nn.Module):
    """One new token against ``past`` cached keys and values: products of a matrix and a vector."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.width, self.heads = width, heads
        self.project, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.forward_layer, self.norm = FeedForward(width, 4 * width), nn.LayerNorm(width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """``x`` (batch, width), ``keys`` and ``values`` (batch * heads, past, width / heads)."""
        query = self.project(x).reshape(keys.shape[0], 1, self.width // self.heads)
        logits = torch.bmm(query, keys.transpose(1, 2)) * (self.width // self.heads) ** -0.5
        mixed = torch.bmm(torch.softmax(logits, -1), values).reshape(x.shape)
        x = self.norm(x + self.out(mixed))
        return x + self.forward_layer(x)


def decode(width: int, past: int, batch: int, heads: int) -> Built:
    """A step of generation."""
    cache = (batch * heads, past, width // heads)
    inputs = (torch.randn(batch, width), torch.randn(cache), torch.randn(cache))
    return DecodeStep(width, heads), inputs


class T5(nn.Module):
    """An encoder and a decoder layer with relative positions, RMS norms and gated layers."""

    def __init__(self, width: int, heads: int, count: int, target: int):
        super().__init__()
        self.encode = Attention(width, heads, (count, count))
        self.attend = Attention(width, heads, (target, target))
        self.cross = Attention(width, heads)
        self.forwards = nn.ModuleList(FeedForward(width, 3 * width, gated=True) for _ in range(2))
        self.norms = nn.ModuleList(RmsNorm(width) for _ in range(5))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = x + self.encode(self.norms[0](x))
        x = x + self.forwards[0](self.norms[1](x))
        y = y + self.attend(self.norms[2](y))
        y = y + self.cross(self.norms[3](y), x)
        return y + self.forwards[1](self.norms[4](y))


def t5(width: int, count: int, batch: int, heads: int) -> Built:
    """Encoder and decoder (Raffel et al. 2020); the target is half as long."""
    target = count // 2
    return T5(width, heads, count, target), (
        *tokens(batch, count, width),
        *tokens(batch, target, width),
    )


class Llama(nn.Module):
    """Rotary positions, shared keys and values, gated SiLU (Touvron et al. 2023)."""

    def __init__(self, width: int, heads: int, count: int):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.out = nn.Linear(width, width, False), nn.Linear(width, width, False)
        self.key = nn.Linear(width, self.size, False)
        self.value = nn.Linear(width, self.size, False)
        self.cos = nn.Parameter(torch.randn(1, count, 1, self.size))
        self.sin = nn.Parameter(torch.randn(1, count, 1, self.size))
        self.mask = nn.Parameter(torch.randn(1, 1, count, count))
        self.gated = FeedForward(width, 8 * width // 3 // 8 * 8, "silu", gated=True)
        self.norms = nn.ModuleList(RmsNorm(width) for _ in range(2))

    def rotated(self, x: Tensor) -> Tensor:
        """``x`` (batch, tokens, heads, size) turned by its position."""
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin

    def forward(self, x: Tensor) -> Tensor:
        """(batch, places, width) to the same."""
        batch, count, width = x.shape
        y = self.norms[0](x)
        query = self.rotated(self.query(y).reshape(batch, count, self.heads, self.size))
        key = self.rotated(self.key(y).reshape(batch, count, 1, self.size))
        # All heads read one key: (batch, count * heads, size) x (batch, size, count).
        logits = torch.bmm(
            query.reshape(batch, count * self.heads, self.size),
            key.reshape(batch, count, self.size).transpose(1, 2),
        )
        logits = logits.reshape(batch, count, self.heads, count).transpose(1, 2) + self.mask
        weights = torch.softmax(logits, -1).reshape(batch, self.heads * count, count)
        mixed = torch.bmm(weights, self.value(y)).reshape(batch, self.heads, count, self.size)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, count, width))
        return x + self.gated(self.norms[1](x))


def llama(width: int, count: int, batch: int, heads: int) -> Built:
    """One layer of a decoder of that kind."""
    return Llama(width, heads, count), tokens(batch, count, width)


class Vit(nn.Module):
    """Patches of an image as tokens (Dosovitskiy et al. 2021)."""

    def __init__(self, width: int, heads: int, patch: int):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.encoder, self.norm = Encoder(width, heads, 2), nn.LayerNorm(width)
        self.head = nn.Linear(width, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        return torch.softmax(self.head(self.norm(self.encoder(x)).mean(1)), -1)


def vit(width: int, size: int, batch: int, heads: int, patch: int = 8) -> Built:
    """A vision transformer."""
    return Vit(width, heads, patch), image(batch, size)


class Windows(nn.Module):
    """Attention within windows of an image's tokens, then patches merged (Liu et al. 2021)."""

    def __init__(self, width: int, heads: int, window: int):
        super().__init__()
        self.window, self.patches = window, nn.Conv2d(3, width, 4, 4)
        self.encoder = Encoder(width, heads, 1, bias=(window**2, window**2))
        self.merge, self.norm = nn.Linear(4 * width, 2 * width), nn.LayerNorm(4 * width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 3, height, width) pictures to merged tokens, (batch, tokens / 4, 2 x width)."""
        x = self.patches(x).permute(0, 2, 3, 1)
        n, h, w, c = x.shape
        s = self.window
        x = x.reshape(n, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5)
        x = self.encoder(x.reshape(n * h * w // s**2, s * s, c))
        x = x.reshape(n, h // s, w // s, s, s, c).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5)
        return self.merge(self.norm(x.reshape(n, h * w // 4, 4 * c)))


def swin(width: int, size: int, batch: int, heads: int) -> Built:
    """One stage of a transformer with windows of 4x4 tokens."""
    return Windows(width, heads, 4), image(batch, size)


NETWORKS = (
    *of_sizes(
        "bert",
        bert,
        "t",
        (128, 64, 1, 2),
        (192, 48, 2, 3),
        (256, 128, 1, 4),
        (64, 96, 8, 2),
        (160, 32, 4, 5),
        (320, 24, 1, 5),
    ),
    *of_sizes(
        "vit", vit, "s", (96, 64, 1, 3), (128, 96, 1, 4), (192, 64, 2, 3, 16), (64, 48, 8, 2, 4)
    ),
    *of_sizes(
        "gpt",
        gpt,
        "t",
        (128, 64, 1, 4),
        (256, 48, 1, 4),
        (192, 96, 2, 6),
        (96, 32, 8, 3),
        (384, 16, 1, 6),
    ),
    *of_sizes("t5", t5, "t", (128, 64, 1, 4), (192, 32, 4, 3), (256, 96, 1, 8), (96, 128, 2, 3)),
    *of_sizes(
        "decode", decode, "t", (256, 128, 1, 4), (512, 64, 1, 8), (192, 256, 4, 3), (128, 96, 16, 2)
    ),
    *of_sizes("llama", llama, "t", (128, 48, 1, 4), (256, 32, 2, 4), (192, 96, 1, 6)),
    *of_sizes("swin", swin, "s", (48, 64, 1, 3), (64, 96, 1, 4), (32, 64, 4, 2)),
)
