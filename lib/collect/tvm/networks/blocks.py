"""Pieces that several networks are made of. Images are (batch, channels, height, width)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

ACTIVATIONS = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "hardswish": nn.Hardswish,
    "none": nn.Identity,
}


def conv(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    act: str = "relu",
    dilation: int = 1,
) -> nn.Sequential:
    """A padded convolution with bias (batch normalization folded in) and its activation."""
    padding = (kernel - 1) // 2 * dilation
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups)
    return nn.Sequential(layer, ACTIVATIONS[act]())


class Residual(nn.Module):
    """``act(body(x) + shortcut(x))``; the shortcut is a 1x1 convolution where shapes differ."""

    def __init__(
        self, body: nn.Module, inputs: int, outputs: int, stride: int = 1, act: str = "relu"
    ):
        super().__init__()
        self.body, self.act = body, ACTIVATIONS[act]()
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else conv(inputs, outputs, 1, stride, act="none")

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.body(x) + self.shortcut(x))


class SqueezeExcite(nn.Module):
    """Channels weighed by what their means say."""

    def __init__(self, channels: int, ratio: int = 4):
        super().__init__()
        self.down = conv(channels, max(4, channels // ratio), 1)
        self.up = conv(max(4, channels // ratio), channels, 1, act="none")

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(self.down(x.mean((2, 3), keepdim=True))))


class Classifier(nn.Module):
    """Mean over the image, a linear layer, softmax."""

    def __init__(self, channels: int, classes: int = 100):
        super().__init__()
        self.linear = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.linear(x.mean((2, 3))), -1)


class RmsNorm(nn.Module):
    """Root-mean-square normalization over the last axis."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """Multi-head attention of (batch, tokens, width); keys and values from ``memory`` if given.

    ``bias`` adds a (heads, tokens, keys) table to the logits: positions, or a causal mask.
    """

    def __init__(self, width: int, heads: int, bias: tuple[int, int] | None = None):
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.bias = None if bias is None else nn.Parameter(torch.randn(1, heads, *bias))

    def split(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) -> (batch * heads, tokens, width / heads)."""
        batch, tokens, width = x.shape
        x = x.reshape(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
        return x.reshape(batch * self.heads, tokens, width // self.heads)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """(batch, tokens, width) to the same; keys and values of ``memory``, if there is any."""
        batch, tokens, width = x.shape
        memory = x if memory is None else memory
        q, k, v = self.split(self.query(x)), self.split(self.key(memory)), self.value(memory)
        logits = torch.bmm(q, k.transpose(1, 2)) * (width // self.heads) ** -0.5
        if self.bias is not None:
            shaped = logits.reshape(batch, self.heads, tokens, memory.shape[1]) + self.bias
            logits = shaped.reshape(batch * self.heads, tokens, memory.shape[1])
        mixed = torch.bmm(torch.softmax(logits, -1), self.split(v))
        mixed = mixed.reshape(batch, self.heads, tokens, width // self.heads).transpose(1, 2)
        return self.out(mixed.reshape(batch, tokens, width))


class FeedForward(nn.Module):
    """Two linear layers; with ``gated``, the first is the product of two."""

    def __init__(self, width: int, hidden: int, act: str = "gelu", gated: bool = False):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.gate = nn.Linear(width, hidden) if gated else None
        self.act = ACTIVATIONS[act]()

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.act(self.up(x))
        return self.down(hidden if self.gate is None else hidden * self.gate(x))


class Encoder(nn.Module):
    """Layers of attention and feed-forward, normalized before (``pre``) or after each."""

    def __init__(
        self,
        width: int,
        heads: int,
        layers: int = 2,
        pre: bool = True,
        act: str = "gelu",
        bias: tuple[int, int] | None = None,
        hidden: int | None = None,
    ):
        super().__init__()
        self.pre = pre
        self.attentions = nn.ModuleList(Attention(width, heads, bias) for _ in range(layers))
        hidden = hidden or 4 * width
        self.forwards = nn.ModuleList(FeedForward(width, hidden, act) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) to the same."""
        for k, (attention, forward) in enumerate(zip(self.attentions, self.forwards, strict=True)):
            first, second = self.norms[2 * k], self.norms[2 * k + 1]
            if self.pre:
                x = x + attention(first(x))
                x = x + forward(second(x))
            else:
                x = first(x + attention(x))
                x = second(x + forward(x))
        return x


def upsampled(x: Tensor) -> Tensor:
    """Twice as high and wide, by nearest neighbours."""
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


def image(batch: int, size: int, channels: int = 3) -> tuple[Tensor, ...]:
    """An example input of a vision network."""
    return (torch.randn(batch, channels, size, size),)


def tokens(batch: int, count: int, width: int) -> tuple[Tensor, ...]:
    """An example input of a sequence network: embeddings."""
    return (torch.randn(batch, count, width),)
