"""Networks over patches of a picture: ConvNeXt, vision transformer, MLP-Mixer."""

import flax.linen as nn
import jax

from lib.collect.xla.zoo.xla.layers import CLASSES, Attention, Classifier, image, patchify


class ConvNeXt(nn.Module):
    """ConvNeXt (Liu et al. 2022): patch stem, 7x7 depthwise, layer norm, inverted dense MLP."""

    width: int
    depth: int
    patch: int = 4
    kernel: int = 7

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.LayerNorm()(nn.Conv(self.width, (self.patch,) * 2, self.patch)(x))
        for stage in range(self.depth):
            if stage:
                x = nn.Conv(2 * x.shape[-1], (2, 2), 2)(nn.LayerNorm()(x))
            features = x.shape[-1]
            y = nn.Conv(features, (self.kernel,) * 2, feature_group_count=features)(x)
            y = nn.gelu(nn.Dense(4 * features)(nn.LayerNorm()(y)))
            x = x + nn.Dense(features)(y)
        return Classifier()(x)


class ViT(nn.Module):
    """Vision transformer (Dosovitskiy et al. 2020), pre-norm, mean pooled."""

    width: int
    depth: int
    heads: int
    patch: int
    fused: bool = True  # one projection for query, key and value; else flax's own attention
    norm: type[nn.Module] = nn.LayerNorm
    parallel: bool = False  # attention and MLP read the same norm, as in ViT-22B

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Dense(self.width, use_bias=False)(patchify(x, self.patch))
        x = x + self.param("positions", nn.initializers.zeros, x.shape[1:])
        for _ in range(self.depth):
            y = self.norm()(x)
            x = x + (Attention if self.fused else nn.MultiHeadDotProductAttention)(self.heads)(y)
            y = y if self.parallel else self.norm()(x)
            x = x + nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(y)))
        return nn.Dense(CLASSES)(self.norm()(x).mean(1))


class MLPMixer(nn.Module):
    """MLP-Mixer (Tolstikhin et al. 2021): dense layers over tokens, then over channels."""

    width: int
    depth: int
    patch: int
    hidden: int = 128

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Dense(self.width)(patchify(x, self.patch))
        for _ in range(self.depth):
            x = x + self.mlp(nn.LayerNorm()(x).swapaxes(1, 2)).swapaxes(1, 2)
            x = x + self.mlp(nn.LayerNorm()(x))
        return nn.Dense(CLASSES)(nn.LayerNorm()(x).mean(1))

    def mlp(self, x: jax.Array) -> jax.Array:
        """Two dense layers along the last axis."""
        return nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(self.hidden)(x)))


FAMILIES = (
    (
        image("convnext", "w32_d2", ConvNeXt(32, 2), 2, 64),
        image("convnext", "w16_d1_k5", ConvNeXt(16, 1, 4, 5), 4, 32, "train"),
        image("convnext", "w48_d2_p2", ConvNeXt(48, 2, 2), 2, 32),
    ),
    (
        image("vit", "w64_d2_h4_p8", ViT(64, 2, 4, 8), 8, 64),
        image(
            "vit",
            "w32_d1_h2_p4_rms_par",
            ViT(32, 1, 2, 4, norm=nn.RMSNorm, parallel=True),
            8,
            32,
            "train",
        ),
        image("vit", "w96_d1_h6_p4_split", ViT(96, 1, 6, 4, False), 8, 32),
        image("vit", "w128_d2_h8_p8", ViT(128, 2, 8, 8), 2, 64),
    ),
    (
        image("mlp_mixer", "w64_d3_p8", MLPMixer(64, 3, 8), 8, 64),
        image("mlp_mixer", "w48_d1_p4", MLPMixer(48, 1, 4), 8, 32, "train"),
        image("mlp_mixer", "w128_d2_p4", MLPMixer(128, 2, 4), 8, 32),
    ),
)
