"""Networks that make pictures: autoencoder, generator, super-resolution, optical flow."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.xla.zoo.program import Input, ZooProgram, flax_program
from lib.collect.xla.zoo.xla.layers import ConvNorm, image


class Autoencoder(nn.Module):
    """Convolutional autoencoder (Masci et al. 2011): strided down to a code, transposed up."""

    width: int
    depth: int
    code: int = 64
    norm: str = "none"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for level in range(self.depth):
            x = ConvNorm(self.width << level, 3, 2, norm=self.norm)(x)
        shape = x.shape
        x = nn.Dense(self.code)(x.reshape(shape[0], -1))
        x = nn.relu(nn.Dense(shape[1] * shape[2] * shape[3])(x)).reshape(shape)
        for level in reversed(range(self.depth)):
            x = nn.relu(nn.ConvTranspose(self.width << level, (3, 3), (2, 2))(x))
        return nn.Conv(3, (3, 3))(x)


class Generator(nn.Module):
    """DCGAN (Radford et al. 2015): noise, a dense layer, 4x4 transposed convolutions."""

    width: int
    depth: int
    side: int = 4

    @nn.compact
    def __call__(self, noise: jax.Array) -> jax.Array:
        start = self.width << self.depth
        x = nn.Dense(self.side * self.side * start)(noise)
        x = x.reshape(len(noise), self.side, self.side, start)
        for level in reversed(range(self.depth)):
            x = nn.ConvTranspose(self.width << level, (4, 4), (2, 2))(nn.relu(x))
            x = nn.BatchNorm(use_running_average=True)(x)
        return nn.tanh(nn.Conv(3, (3, 3))(nn.relu(x)))


class SuperResolution(nn.Module):
    """ESPCN (Shi et al. 2016), optionally with EDSR's residual blocks: pixels shuffled last."""

    width: int
    blocks: int
    scale: int = 2

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        batch, height, width, channels = x.shape
        x = nn.Conv(self.width, (5, 5))(x)
        for _ in range(self.blocks):
            y = nn.relu(nn.Conv(self.width, (3, 3))(x))
            x = x + nn.Conv(self.width, (3, 3))(y)
        x = nn.Conv(channels * self.scale**2, (3, 3))(x)
        x = x.reshape(batch, height, width, self.scale, self.scale, channels).swapaxes(2, 3)
        return x.reshape(batch, height * self.scale, width * self.scale, channels)


class Flow(nn.Module):
    """FlowNet (Dosovitskiy et al. 2015): features of two pictures, correlated, then refined."""

    width: int
    depth: int
    reach: int = 1

    @nn.compact
    def __call__(self, first: jax.Array, second: jax.Array) -> jax.Array:
        x = jnp.concatenate([first, second])  # the same weights for both
        for level in range(self.depth):
            x = ConvNorm(self.width << level, 3, 2, norm="none")(x)
        a, b = jnp.split(x, 2)
        places = range(-self.reach, self.reach + 1)
        shifted = jnp.stack([jnp.roll(b, (i, j), (1, 2)) for i in places for j in places], 3)
        costs = jnp.einsum("bhwc,bhwdc->bhwd", a, shifted) / a.shape[-1]
        x = jnp.concatenate([ConvNorm(self.width, 1, norm="none")(a), nn.relu(costs)], -1)
        for _ in range(2):
            x = ConvNorm(2 * self.width, 3, norm="none")(x)
        return nn.Conv(2, (3, 3))(x)


def _noise(variant: str, module: nn.Module, batch: int, mode: str = "forward") -> ZooProgram:
    noise = Input((batch, 64))
    return flax_program(
        "generator", "xla", f"{variant}_b{batch}", module, (noise,), mode, "mean_square"
    )


def _flow(variant: str, module: nn.Module, batch: int, side: int) -> ZooProgram:
    picture = Input((batch, side, side, 3))
    name = f"{variant}_b{batch}_r{side}"
    return flax_program("optical_flow", "xla", name, module, (picture, picture), "forward")


FAMILIES = (
    (
        image("autoencoder", "w32_d2_z64", Autoencoder(32, 2), 8, 32),
        image("autoencoder", "w16_d2_z32", Autoencoder(16, 2, 32), 4, 16, "train"),
        image("autoencoder", "w16_d3_z128_bn", Autoencoder(16, 3, 128, "batch"), 8, 32),
    ),
    (
        _noise("w32_d2", Generator(32, 2), 16),
        _noise("w16_d1", Generator(16, 1, 8), 4, "train"),
        _noise("w16_d3", Generator(16, 3), 8),
    ),
    (
        image("super_resolution", "w32_n2", SuperResolution(32, 2), 2, 32),
        image("super_resolution", "w16_n1_x3", SuperResolution(16, 1, 3), 2, 32, "train"),
        image("super_resolution", "w32_n0_x4", SuperResolution(32, 0, 4), 4, 32),
    ),
    (
        _flow("w32_d2_k1", Flow(32, 2), 4, 48),
        _flow("w16_d2_k2", Flow(16, 2, 2), 4, 64),
    ),
)
