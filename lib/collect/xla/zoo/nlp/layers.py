"""Layers that language networks share."""

import functools
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


class Language(nn.Module):
    """The hyper-parameters every family reads, and the layers most of them share."""

    width: int = 128
    depth: int = 2
    heads: int = 4
    vocab: int = 1024

    def embed(self, tokens: jax.Array, width: int = 0) -> jax.Array:
        """Token embeddings plus learned positions: (B, L) -> (B, L, W)."""
        width = width or self.width
        places = self.param("places", nn.initializers.normal(), (tokens.shape[-1], width))
        return nn.Embed(self.vocab, width)(tokens) + places

    def logits(self, x: jax.Array) -> jax.Array:
        """Next-token logits of the flattened batch: (B, L, W) -> (B * L, V)."""
        return nn.Dense(self.vocab, use_bias=False)(x.reshape(-1, x.shape[-1]))


# Without biases: the gradient of each would be one more kernel to compile.
dense = functools.partial(nn.Dense, use_bias=False)
norm = functools.partial(nn.LayerNorm, use_bias=False)


class Attention(nn.Module):
    """Multi-head attention; heads are split and merged by reshapes, and may share keys."""

    heads: int
    groups: int = 0
    causal: bool = False
    rotary: bool = False

    @nn.compact
    def __call__(
        self, x: jax.Array, memory: jax.Array | None = None, bias: jax.Array | None = None
    ) -> jax.Array:
        memory = x if memory is None else memory
        size, groups = x.shape[-1] // self.heads, self.groups or self.heads
        q = dense(x.shape[-1])(x).reshape(*x.shape[:2], self.heads, size)  # (B, L, H, D)
        k = dense(groups * size)(memory).reshape(*memory.shape[:2], groups, size)
        v = dense(groups * size)(memory).reshape(*memory.shape[:2], groups, size)
        if self.rotary:
            q, k = rotate(q), rotate(k)
        if groups < self.heads:
            k, v = repeat(k, self.heads), repeat(v, self.heads)
        q, k, v = (y.swapaxes(1, 2) for y in (q, k, v))  # (B, H, L, D)
        mixed = attend(q, k, v, self.causal, bias).swapaxes(1, 2)
        return dense(x.shape[-1])(mixed.reshape(x.shape))


class FusedAttention(nn.Module):
    """Causal self-attention with one product for queries, keys and values, as in GPT-2."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        mixed = dense(3 * x.shape[-1])(x).reshape(*x.shape[:2], 3, self.heads, -1)
        q, k, v = mixed.transpose(2, 0, 3, 1, 4)  # (B, H, L, D) each
        mixed = attend(q, k, v, causal=True).swapaxes(1, 2)
        return dense(x.shape[-1])(mixed.reshape(x.shape))


class FeedForward(nn.Module):
    """Two dense layers around an activation; `gated` multiplies by a second branch (GLU)."""

    factor: int = 4
    activation: Callable = nn.gelu
    gated: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        hidden = self.activation(dense(self.factor * x.shape[-1])(x))
        if self.gated:
            hidden *= dense(self.factor * x.shape[-1])(x)
        return dense(x.shape[-1])(hidden)


class PostNormBlock(nn.Module):
    """The encoder block of the first transformer: normalise after each residual sum."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = norm()(x + Attention(self.heads)(x))
        return norm()(x + FeedForward()(x))


def attend(
    q: jax.Array, k: jax.Array, v: jax.Array, causal: bool, bias: jax.Array | None = None
) -> jax.Array:
    """Softmax attention of heads first, (B, H, L, D)."""
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5  # (B, H, L, M)
    if bias is not None:
        scores += bias
    if causal:
        scores = jnp.where(np.tri(q.shape[2], dtype=bool), scores, -1e9)
    return nn.softmax(scores) @ v


def repeat(x: jax.Array, heads: int) -> jax.Array:
    """Every head of a group given its own copy of the group's keys: (B, L, G, D), (B, L, H, D)."""
    batch, length, groups, size = x.shape
    shape = (batch, length, groups, heads // groups, size)
    return jnp.broadcast_to(x[:, :, :, None], shape).reshape(batch, length, heads, size)


def rotate(x: jax.Array) -> jax.Array:
    """Rotary positions: each pair of channels turned by an angle of its place, (B, L, H, D)."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None] / 10_000 ** (np.arange(half) / half)  # (L, D / 2)
    cos, sin = (np.float32(f(angle))[:, None] for f in (np.cos, np.sin))
    even, odd = jnp.moveaxis(x.reshape(*x.shape[:-1], half, 2), -1, 0)
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)
