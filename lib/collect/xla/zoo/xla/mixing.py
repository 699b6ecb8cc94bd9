"""Vision networks that mix positions in other ways: windows, pooling, attention over maps."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.xla.zoo.xla.layers import CLASSES, Attention, Classifier, ConvNorm, image


class Swin(nn.Module):
    """Swin transformer (Liu et al. 2021): attention within windows, shifted every other block."""

    width: int
    depth: int
    heads: int
    window: int = 4
    patch: int = 4

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(self.width, (self.patch,) * 2, self.patch)(x)
        for block in range(self.depth):
            shift = self.window // 2 * (block % 2)
            y = jnp.roll(nn.LayerNorm()(x), (-shift, -shift), (1, 2))
            x = x + jnp.roll(self.windows(y), (shift, shift), (1, 2))
            y = nn.gelu(nn.Dense(2 * self.width)(nn.LayerNorm()(x)))
            x = x + nn.Dense(self.width)(y)
        return Classifier()(self.merge(x))

    def windows(self, x: jax.Array) -> jax.Array:
        """Attention of each window's tokens to one another."""
        batch, height, width, channels = x.shape
        tiles = (batch, height // self.window, self.window, width // self.window, self.window, -1)
        tokens = x.reshape(tiles).swapaxes(2, 3).reshape(-1, self.window**2, channels)
        y = Attention(self.heads)(tokens)
        y = y.reshape(*tiles[:2], tiles[3], self.window, self.window, channels).swapaxes(2, 3)
        return y.reshape(x.shape)

    def merge(self, x: jax.Array) -> jax.Array:
        """Four neighbours as one token of twice the width."""
        batch, height, width, channels = x.shape
        x = x.reshape(batch, height // 2, 2, width // 2, 2, channels).swapaxes(2, 3)
        x = x.reshape(batch, height // 2, width // 2, 4 * channels)
        return nn.Dense(2 * channels, use_bias=False)(x)


class PoolFormer(nn.Module):
    """PoolFormer (Yu et al. 2021): a mean over neighbours in the place of attention."""

    width: int
    depth: int
    patch: int = 4

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(self.width, (self.patch,) * 2, self.patch)(x)
        for _ in range(self.depth):
            y = nn.GroupNorm(1)(x)
            x = x + nn.avg_pool(y, (3, 3), (1, 1), "SAME") - y
            y = nn.gelu(nn.Conv(4 * self.width, (1, 1))(nn.GroupNorm(1)(x)))
            x = x + nn.Conv(self.width, (1, 1))(y)
        return Classifier()(x)


class BotNet(nn.Module):
    """BoTNet (Srinivas et al. 2021): a residual net whose last blocks attend over the map."""

    width: int
    heads: int
    blocks: int = 1

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = ConvNorm(self.width // 2, 3, 2)(x)
        x = ConvNorm(self.width, 3, 2)(x)
        for _ in range(self.blocks):
            y = ConvNorm(self.width // 2, 1)(x)
            batch, height, width, channels = y.shape
            y = Attention(self.heads)(y.reshape(batch, height * width, channels))
            y = nn.relu(y.reshape(batch, height, width, channels))
            x = nn.relu(x + ConvNorm(self.width, 1, act=None)(y))
        return Classifier()(x)


class SqueezeNet(nn.Module):
    """SqueezeNet (Iandola et al. 2016): fire modules squeeze to few channels, then expand."""

    width: int
    depth: int
    classes: int = CLASSES

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.relu(nn.Conv(self.width, (3, 3), 2)(x))
        for stage in range(self.depth):
            wide = self.width << stage
            y = nn.relu(nn.Conv(wide // 2, (1, 1))(x))
            parts = [nn.Conv(wide, (1, 1))(y), nn.Conv(wide, (3, 3))(y)]
            x = nn.relu(jnp.concatenate(parts, -1))
            x = nn.avg_pool(x, (2, 2), (2, 2))
        return nn.Conv(self.classes, (1, 1))(x).mean((1, 2))


class HighResolution(nn.Module):
    """HRNet (Wang et al. 2019): a fine and a coarse map side by side that exchange features."""

    width: int
    stages: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        fine = ConvNorm(self.width, 3, 2)(x)
        coarse = ConvNorm(2 * self.width, 3, 2)(fine)
        for _ in range(self.stages):
            fine, coarse = ConvNorm(self.width)(fine), ConvNorm(2 * self.width)(coarse)
            up = ConvNorm(self.width, 1, act=None)(coarse)
            up = jnp.repeat(jnp.repeat(up, 2, 1), 2, 2)
            down = ConvNorm(2 * self.width, 3, 2, act=None)(fine)
            fine, coarse = nn.relu(fine + up), nn.relu(coarse + down)
        coarse = jnp.repeat(jnp.repeat(coarse, 2, 1), 2, 2)
        return nn.Conv(8, (1, 1))(jnp.concatenate([fine, coarse], -1))


FAMILIES = (
    (
        image("swin", "w64_d2_h4_k4", Swin(64, 2, 4), 4, 64),
        image("swin", "w32_d1_h2_k4", Swin(32, 1, 2), 16, 32, "train"),
        image("swin", "w96_d2_h6_k2", Swin(96, 2, 6, 2), 4, 32),
    ),
    (
        image("poolformer", "w64_d3", PoolFormer(64, 3), 4, 64),
        image("poolformer", "w96_d2_p2", PoolFormer(96, 2, 2), 2, 32),
    ),
    (
        image("botnet", "w64_h4", BotNet(64, 4), 4, 64),
        image("botnet", "w128_h4_n2", BotNet(128, 4, 2), 2, 48),
    ),
    (
        image("squeezenet", "w32_d3", SqueezeNet(32, 3), 4, 64),
        image("squeezenet", "w16_d2", SqueezeNet(16, 2), 8, 32, "train"),
        image("squeezenet", "w64_d2", SqueezeNet(64, 2), 8, 32),
    ),
    (
        image("hrnet", "w16_n2", HighResolution(16, 2), 4, 64),
        image("hrnet", "w32_n1", HighResolution(32, 1), 4, 48),
    ),
)
