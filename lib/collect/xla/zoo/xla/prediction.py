"""Networks that predict something for each place: segmentation and detection."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.xla.zoo.xla.layers import ConvNorm, image, pool


class UNet(nn.Module):
    """U-Net (Ronneberger et al. 2015): encoder, decoder of transposed convolutions, and skips."""

    width: int
    depth: int
    norm: str = "group"
    pool: str = "max"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        skips = []
        for level in range(self.depth):
            x = ConvNorm(self.width << level, norm=self.norm)(x)
            skips.append(x)
            x = pool(x, self.pool)
        x = ConvNorm(self.width << self.depth, norm=self.norm)(x)
        for level in reversed(range(self.depth)):
            x = nn.ConvTranspose(self.width << level, (2, 2), (2, 2))(x)
            x = jnp.concatenate([x, skips[level]], -1)
            x = ConvNorm(self.width << level, norm=self.norm)(x)
        return nn.Conv(8, (1, 1))(x)


class ASPP(nn.Module):
    """DeepLab v3 (Chen et al. 2017): a strided backbone and an atrous spatial pyramid."""

    width: int
    rates: tuple[int, ...] = (2, 4)
    norm: str = "batch"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        batch, height, width, _ = x.shape
        x = ConvNorm(self.width // 2, 3, 2, norm=self.norm)(x)
        x = ConvNorm(self.width, 3, 2, norm=self.norm)(x)
        branches = [ConvNorm(self.width, 1, norm=self.norm)(x)]
        for rate in self.rates:
            branches.append(ConvNorm(self.width, 3, dilation=rate, norm=self.norm)(x))
        pooled = nn.relu(nn.Dense(self.width)(x.mean((1, 2)))).reshape(batch, 1, 1, self.width)
        branches.append(jnp.broadcast_to(pooled, x.shape))
        x = ConvNorm(self.width, 1, norm=self.norm)(jnp.concatenate(branches, -1))
        x = nn.Conv(8, (1, 1))(x)  # (B, H/4, W/4, 8), then enlarged by repetition
        x = jnp.broadcast_to(x[:, :, None, :, None], (batch, height // 4, 4, width // 4, 4, 8))
        return x.reshape(batch, height, width, 8)


class Detector(nn.Module):
    """RetinaNet (Lin et al. 2017): backbone, feature pyramid, shared class and box branches."""

    width: int
    levels: int
    anchors: int = 3
    norm: str = "batch"
    classes: int = 16

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = ConvNorm(self.width // 2, 3, 2, norm=self.norm)(x)
        maps = []
        for _ in range(self.levels):
            x = ConvNorm(self.width, 3, 2, norm=self.norm)(x)
            maps.append(x)
        merged = nn.Conv(self.width, (1, 1))(maps[-1])
        pyramid = [merged]
        for lateral in reversed(maps[:-1]):
            merged = jnp.repeat(jnp.repeat(merged, 2, 1), 2, 2)
            merged = merged + nn.Conv(self.width, (1, 1))(lateral)
            pyramid.append(merged)
        scores = self.head(pyramid, self.classes)
        return scores, self.head(pyramid, 4)

    def head(self, pyramid: list[jax.Array], size: int) -> jax.Array:
        """One branch, its weights shared by all levels -> (B, all anchors, size)."""
        tower = ConvNorm(self.width, 3, norm=self.norm)
        last = nn.Conv(self.anchors * size, (3, 3))
        outputs = [last(tower(level)) for level in pyramid]
        return jnp.concatenate([y.reshape(y.shape[0], -1, size) for y in outputs], 1)


FAMILIES = (
    (
        image("unet", "w16_d2", UNet(16, 2), 1, 64),
        image("unet", "w16_d1_nf", UNet(16, 1, "none", "mean"), 1, 32, "train"),
        image("unet", "w32_d2_bn", UNet(32, 2, "batch"), 2, 32),
        image("unet", "w16_d2_bn", UNet(16, 2, "batch", "mean"), 2, 48),
    ),
    (
        image("aspp", "w64_a2", ASPP(64), 4, 64),
        image("aspp", "w64_a3_gn", ASPP(64, (1, 2, 3), "group"), 2, 64),
        image("aspp", "w32_a1_nf", ASPP(32, (2,), "none"), 4, 48, "train"),
    ),
    (
        image("detector", "w32_l2", Detector(32, 2), 4, 96),
        image(
            "detector",
            "w32_l1_nf",
            Detector(32, 1, norm="none"),
            4,
            48,
            "train",
            ("cross_entropy", "mean_square"),
        ),
        image("detector", "w64_l3_a1", Detector(64, 3, 1), 2, 64),
    ),
)
