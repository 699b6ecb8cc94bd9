"""Layers that vision networks share, and a program over pictures. Images are NHWC float32."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.xla.zoo.program import Input, Loss, ZooProgram, flax_program

CLASSES = 64


class ConvNorm(nn.Module):
    """Convolution, "batch" (in its inference form), "group" or "none" as norm, activation."""

    features: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1
    dilation: int = 1
    norm: str = "batch"
    act: Callable | None = nn.relu

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(
            self.features,
            (self.kernel, self.kernel),
            self.stride,
            kernel_dilation=self.dilation,
            feature_group_count=self.groups,
            use_bias=self.norm == "none",
        )(x)
        if self.norm == "batch":
            x = nn.BatchNorm(use_running_average=True)(x)
        elif self.norm == "group":
            x = nn.GroupNorm(num_groups=8)(x)
        return x if self.act is None else self.act(x)


def pool(x: jax.Array, kind: str, window: int = 2, stride: int = 2) -> jax.Array:
    """Pooling by "max" or "mean"."""
    reduce = nn.max_pool if kind == "max" else nn.avg_pool
    return reduce(x, (window, window), (stride, stride), "SAME")


class SqueezeExcite(nn.Module):
    """Channel gate: global mean, two dense layers, sigmoid."""

    ratio: int = 4

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        batch, _, _, channels = x.shape
        gate = nn.relu(nn.Dense(channels // self.ratio)(x.mean((1, 2))))
        gate = nn.sigmoid(nn.Dense(channels)(gate))
        return x * gate.reshape(batch, 1, 1, channels)


class Classifier(nn.Module):
    """Global mean pooling and a dense layer."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(CLASSES)(x.mean((1, 2)))


def patchify(x: jax.Array, patch: int) -> jax.Array:
    """(B, H, W, C) -> (B, H/p * W/p, p * p * C)."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // patch, patch, width // patch, patch, channels)
    return x.swapaxes(2, 3).reshape(batch, -1, patch * patch * channels)


class Attention(nn.Module):
    """Multi-head self-attention, bias-free, one fused projection, heads split by reshapes."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        batch, tokens, width = x.shape
        qkv = nn.Dense(3 * width, use_bias=False)(x)
        qkv = qkv.reshape(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]  # (B, T, H, D)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / (width // self.heads) ** 0.5
        mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), value)
        return nn.Dense(width, use_bias=False)(mixed.reshape(batch, tokens, width))


def image(
    family: str,
    variant: str,
    module: nn.Module,
    batch: int,
    side: int,
    mode: str = "forward",
    loss: Loss = "mean_square",
) -> ZooProgram:
    """A program over RGB images; batch and resolution end the variant's name."""
    image = Input((batch, side, side, 3))
    return flax_program(family, "xla", f"{variant}_b{batch}_r{side}", module, (image,), mode, loss)
