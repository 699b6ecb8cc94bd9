"""The vision half of the zoo: the families a practitioner would recognise, small enough to measure.

Every network keeps its architecture's blocks and has only a few of them: a configuration costs one
compilation, so small nets of many families beat one large net. Images are NHWC float32.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain, zip_longest

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.zoo.program import Input, Loss, Program, flax_program

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


class ResNet(nn.Module):
    """ResNet (He et al. 2015): basic or bottleneck residual blocks, optionally squeeze-excited."""

    width: int
    depth: int  # stages, the channels doubled and the picture halved from each to the next
    blocks: int = 1
    bottleneck: bool = False
    excite: bool = False
    norm: str = "batch"
    groups: int = 1  # of the bottleneck's 3x3 convolution: ResNeXt

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = ConvNorm(self.width, 7 if self.bottleneck else 3, 2, norm=self.norm)(x)
        for stage in range(self.depth):
            for block in range(self.blocks):
                x = self.block(x, self.width << stage, 2 if stage and not block else 1)
        return Classifier()(x)

    def block(self, x: jax.Array, features: int, stride: int) -> jax.Array:
        """One residual block with a projected shortcut where the shape changes."""
        if self.bottleneck:
            y = ConvNorm(features // 2, 1, norm=self.norm)(x)
            y = ConvNorm(features // 2, 3, stride, self.groups, norm=self.norm)(y)
            y = ConvNorm(features, 1, norm=self.norm, act=None)(y)
        else:
            y = ConvNorm(features, 3, stride, norm=self.norm)(x)
            y = ConvNorm(features, 3, norm=self.norm, act=None)(y)
        if self.excite:
            y = SqueezeExcite()(y)
        if x.shape != y.shape:
            x = ConvNorm(features, 1, stride, norm=self.norm, act=None)(x)
        return nn.relu(x + y)


class VGG(nn.Module):
    """VGG (Simonyan and Zisserman 2014): plain 3x3 convolutions, pooling, flattened dense head."""

    width: int
    depth: int
    convs: int = 2
    hidden: int = 128
    pool: str = "max"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for stage in range(self.depth):
            for _ in range(self.convs):
                x = nn.relu(nn.Conv(self.width << stage, (3, 3))(x))
            x = pool(x, self.pool)
        x = x.reshape(x.shape[0], -1)
        return nn.Dense(CLASSES)(nn.relu(nn.Dense(self.hidden)(x)))


class SeparableNet(nn.Module):
    """MobileNet v1 (Howard et al. 2017), or ShuffleNet's channel shuffle between grouped 1x1."""

    width: int
    depth: int
    shuffle: int = 1
    norm: str = "batch"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = ConvNorm(self.width, 3, 2, norm=self.norm)(x)
        for stage in range(self.depth):
            x = ConvNorm(x.shape[-1], 3, 1 + stage % 2, groups=x.shape[-1], norm=self.norm)(x)
            x = ConvNorm(self.width << (stage + 1) // 2, 1, 1, self.shuffle, norm=self.norm)(x)
            if self.shuffle > 1:
                batch, height, width, channels = x.shape
                x = x.reshape(batch, height, width, self.shuffle, channels // self.shuffle)
                x = x.swapaxes(3, 4).reshape(batch, height, width, channels)
        return Classifier()(x)


class InvertedResidualNet(nn.Module):
    """MobileNet v2 (Sandler et al. 2018); with `excite`, EfficientNet (Tan and Le 2019)."""

    width: int
    depth: int
    expand: int = 4
    kernel: int = 3
    excite: bool = False
    norm: str = "batch"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        act = nn.swish if self.excite else nn.relu6
        x = ConvNorm(self.width, 3, 2, norm=self.norm, act=act)(x)
        for stage in range(self.depth):
            features, wide = self.width + 8 * stage, self.expand * x.shape[-1]
            y = ConvNorm(wide, 1, norm=self.norm, act=act)(x)
            y = ConvNorm(wide, self.kernel, 1 + stage % 2, wide, norm=self.norm, act=act)(y)
            if self.excite:
                y = SqueezeExcite()(y)
            y = ConvNorm(features, 1, norm=self.norm, act=None)(y)
            x = x + y if x.shape == y.shape else y
        return Classifier()(ConvNorm(2 * x.shape[-1], 1, norm=self.norm, act=act)(x))


class DenseNet(nn.Module):
    """DenseNet (Huang et al. 2016): concatenated features, 1x1 transitions with mean pooling."""

    growth: int
    blocks: int
    layers: int
    norm: str = "batch"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = ConvNorm(2 * self.growth, 3, 2, norm=self.norm)(x)
        for block in range(self.blocks):
            if block:
                x = pool(ConvNorm(x.shape[-1] // 2, 1, norm=self.norm)(x), "mean")
            for _ in range(self.layers):
                y = ConvNorm(2 * self.growth, 1, norm=self.norm)(x)
                x = jnp.concatenate([x, ConvNorm(self.growth, 3, norm=self.norm)(y)], -1)
        return Classifier()(x)


class Inception(nn.Module):
    """GoogLeNet (Szegedy et al. 2014): parallel 1x1, 3x3, 5x5 and pooled branches, concatenated."""

    width: int
    depth: int
    factorised: bool = False  # 5x5 as two 3x3, as in Inception v2
    norm: str = "batch"
    pool: str = "max"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = ConvNorm(self.width, 5, 2, norm=self.norm)(x)
        for stage in range(self.depth):
            x = pool(self.module(x, self.width << stage), self.pool)
        return Classifier()(x)

    def module(self, x: jax.Array, width: int) -> jax.Array:
        """Four branches, 2.5 times `width` channels in all."""
        half = partial(ConvNorm, width // 2, norm=self.norm)
        middle = ConvNorm(width, 3, norm=self.norm)(half(1)(x))
        wide = half(3)(half(3)(half(1)(x))) if self.factorised else half(5)(half(1)(x))
        pooled = half(1)(pool(x, self.pool, 3, 1))
        return jnp.concatenate([ConvNorm(width, 1, norm=self.norm)(x), middle, wide, pooled], -1)


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


def _image(
    family: str,
    variant: str,
    module: nn.Module,
    batch: int,
    side: int,
    mode: str = "forward",
    loss: Loss = "mean_square",
) -> Program:
    """A program over RGB images; batch and resolution end the variant's name."""
    image = Input((batch, side, side, 3))
    return flax_program(family, "xla", f"{variant}_b{batch}_r{side}", module, (image,), mode, loss)


_ENTROPY = "cross_entropy"
_EFFICIENT = InvertedResidualNet(8, 1, 4, 3, True, "none")
_PARALLEL = ViT(32, 1, 2, 4, norm=nn.RMSNorm, parallel=True)
_BOTH = ("cross_entropy", "mean_square")

# Sizes by measurement: 1-15 ms a run, compiled within a second. Training steps go without norms
# ("nf") or with few of them and by mean pooling, whose gradients are cheap to compile.
_FAMILIES: tuple[tuple[Program, ...], ...] = (
    (
        _image("resnet_basic", "w16_d2", ResNet(16, 2), 4, 64),
        _image("resnet_basic", "w32_d1_nf", ResNet(32, 1, norm="none"), 6, 32, "train", _ENTROPY),
        _image("resnet_basic", "w32_d3", ResNet(32, 3), 2, 48),
        _image("resnet_basic", "w32_d2_gn", ResNet(32, 2, norm="group"), 8, 32),
        _image("resnet_basic", "w16_d1", ResNet(16, 1), 2, 64, "train"),
    ),
    (
        _image("resnet_bottleneck", "w32_d2", ResNet(32, 2, bottleneck=True), 4, 64),
        _image("resnet_bottleneck", "w64_d2_g4", ResNet(64, 2, bottleneck=True, groups=4), 2, 48),
        _image("resnet_bottleneck", "w64_d1", ResNet(64, 1, bottleneck=True), 4, 32, "train"),
        _image("resnet_bottleneck", "w64_d2_n2", ResNet(64, 2, 2, bottleneck=True), 4, 32),
    ),
    (
        _image("se_resnet", "w16_d2", ResNet(16, 2, excite=True), 4, 64),
        _image("se_resnet", "w32_d1_nf", ResNet(32, 1, 1, False, True, "none"), 4, 32, "train"),
        _image("se_resnet", "w64_d2_bottle", ResNet(64, 2, 1, True, True), 2, 64),
    ),
    (
        _image("vgg", "w16_d3", VGG(16, 3), 2, 48),
        _image("vgg", "w16_d2_c1_mean", VGG(16, 2, 1, 128, "mean"), 8, 32, "train", _ENTROPY),
        _image("vgg", "w32_d3_c1", VGG(32, 3, 1, 256), 8, 32),
        _image("vgg", "w32_d1_c1", VGG(32, 1, 1, 64), 4, 32, "train"),
    ),
    (
        _image("mobilenet", "v1_w16_d4", SeparableNet(16, 4), 4, 48),
        _image("mobilenet", "v2_w16_d3", InvertedResidualNet(16, 3), 2, 64),
        _image("mobilenet", "v1_w16_d2_nf", SeparableNet(16, 2, norm="none"), 2, 32, "train"),
        _image("mobilenet", "shuffle_w32_d4_g4", SeparableNet(32, 4, 4), 4, 32),
        _image("mobilenet", "v2_w24_d2_e3", InvertedResidualNet(24, 2, 3), 4, 32),
    ),
    (
        _image("efficientnet", "w16_d2", InvertedResidualNet(16, 2, excite=True), 2, 64),
        _image("efficientnet", "w16_d2_k5", InvertedResidualNet(16, 2, 4, 5, True), 2, 48),
        _image("efficientnet", "w8_d1_nf", _EFFICIENT, 4, 32, "train"),
    ),
    (
        _image("densenet", "g16_d2_l2", DenseNet(16, 2, 2), 4, 64),
        _image("densenet", "g16_d1_l2_nf", DenseNet(16, 1, 2, "none"), 4, 32, "train"),
        _image("densenet", "g32_d2_l2", DenseNet(32, 2, 2), 4, 32),
    ),
    (
        _image("inception", "w16_d2", Inception(16, 2), 4, 48),
        _image("inception", "w16_d1_nf", Inception(16, 1, False, "none", "mean"), 3, 32, "train"),
        _image("inception", "w32_d2_v2", Inception(32, 2, True), 4, 40),
    ),
    (
        _image("unet", "w16_d2", UNet(16, 2), 1, 64),
        _image("unet", "w16_d1_nf", UNet(16, 1, "none", "mean"), 1, 32, "train"),
        _image("unet", "w32_d2_bn", UNet(32, 2, "batch"), 2, 32),
        _image("unet", "w16_d2_bn", UNet(16, 2, "batch", "mean"), 2, 48),
    ),
    (
        _image("aspp", "w64_a2", ASPP(64), 4, 64),
        _image("aspp", "w64_a3_gn", ASPP(64, (1, 2, 3), "group"), 2, 64),
        _image("aspp", "w32_a1_nf", ASPP(32, (2,), "none"), 4, 48, "train"),
    ),
    (
        _image("convnext", "w32_d2", ConvNeXt(32, 2), 2, 64),
        _image("convnext", "w16_d1_k5", ConvNeXt(16, 1, 4, 5), 4, 32, "train"),
        _image("convnext", "w48_d2_p2", ConvNeXt(48, 2, 2), 2, 32),
    ),
    (
        _image("vit", "w64_d2_h4_p8", ViT(64, 2, 4, 8), 8, 64),
        _image("vit", "w32_d1_h2_p4_rms_par", _PARALLEL, 8, 32, "train"),
        _image("vit", "w96_d1_h6_p4_split", ViT(96, 1, 6, 4, False), 8, 32),
        _image("vit", "w128_d2_h8_p8", ViT(128, 2, 8, 8), 2, 64),
    ),
    (
        _image("mlp_mixer", "w64_d3_p8", MLPMixer(64, 3, 8), 8, 64),
        _image("mlp_mixer", "w48_d1_p4", MLPMixer(48, 1, 4), 8, 32, "train"),
        _image("mlp_mixer", "w128_d2_p4", MLPMixer(128, 2, 4), 8, 32),
    ),
    (
        _image("detector", "w32_l2", Detector(32, 2), 4, 96),
        _image("detector", "w32_l1_nf", Detector(32, 1, norm="none"), 4, 48, "train", _BOTH),
        _image("detector", "w64_l3_a1", Detector(64, 3, 1), 2, 64),
    ),
)

# Round-robin over the families, so that a collection cut short is diverse.
PROGRAMS: tuple[Program, ...] = tuple(
    program for program in chain.from_iterable(zip_longest(*_FAMILIES)) if program
)
