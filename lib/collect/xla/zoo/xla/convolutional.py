"""Convolutional classifiers: residual, plain, separable, densely connected, branching."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.xla.zoo.xla.layers import CLASSES, Classifier, ConvNorm, SqueezeExcite, image, pool


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


FAMILIES = (
    (
        image("resnet_basic", "w16_d2", ResNet(16, 2), 4, 64),
        image(
            "resnet_basic", "w32_d1_nf", ResNet(32, 1, norm="none"), 6, 32, "train", "cross_entropy"
        ),
        image("resnet_basic", "w32_d3", ResNet(32, 3), 2, 48),
        image("resnet_basic", "w32_d2_gn", ResNet(32, 2, norm="group"), 8, 32),
        image("resnet_basic", "w16_d1", ResNet(16, 1), 2, 64, "train"),
    ),
    (
        image("resnet_bottleneck", "w32_d2", ResNet(32, 2, bottleneck=True), 4, 64),
        image("resnet_bottleneck", "w64_d2_g4", ResNet(64, 2, bottleneck=True, groups=4), 2, 48),
        image("resnet_bottleneck", "w64_d1", ResNet(64, 1, bottleneck=True), 4, 32, "train"),
        image("resnet_bottleneck", "w64_d2_n2", ResNet(64, 2, 2, bottleneck=True), 4, 32),
    ),
    (
        image("se_resnet", "w16_d2", ResNet(16, 2, excite=True), 4, 64),
        image("se_resnet", "w32_d1_nf", ResNet(32, 1, 1, False, True, "none"), 4, 32, "train"),
        image("se_resnet", "w64_d2_bottle", ResNet(64, 2, 1, True, True), 2, 64),
    ),
    (
        image("vgg", "w16_d3", VGG(16, 3), 2, 48),
        image("vgg", "w16_d2_c1_mean", VGG(16, 2, 1, 128, "mean"), 8, 32, "train", "cross_entropy"),
        image("vgg", "w32_d3_c1", VGG(32, 3, 1, 256), 8, 32),
        image("vgg", "w32_d1_c1", VGG(32, 1, 1, 64), 4, 32, "train"),
    ),
    (
        image("mobilenet", "v1_w16_d4", SeparableNet(16, 4), 4, 48),
        image("mobilenet", "v2_w16_d3", InvertedResidualNet(16, 3), 2, 64),
        image("mobilenet", "v1_w16_d2_nf", SeparableNet(16, 2, norm="none"), 2, 32, "train"),
        image("mobilenet", "shuffle_w32_d4_g4", SeparableNet(32, 4, 4), 4, 32),
        image("mobilenet", "v2_w24_d2_e3", InvertedResidualNet(24, 2, 3), 4, 32),
    ),
    (
        image("efficientnet", "w16_d2", InvertedResidualNet(16, 2, excite=True), 2, 64),
        image("efficientnet", "w16_d2_k5", InvertedResidualNet(16, 2, 4, 5, True), 2, 48),
        image(
            "efficientnet",
            "w8_d1_nf",
            InvertedResidualNet(8, 1, 4, 3, True, "none"),
            4,
            32,
            "train",
        ),
    ),
    (
        image("densenet", "g16_d2_l2", DenseNet(16, 2, 2), 4, 64),
        image("densenet", "g16_d1_l2_nf", DenseNet(16, 1, 2, "none"), 4, 32, "train"),
        image("densenet", "g32_d2_l2", DenseNet(32, 2, 2), 4, 32),
    ),
    (
        image("inception", "w16_d2", Inception(16, 2), 4, 48),
        image("inception", "w16_d1_nf", Inception(16, 1, False, "none", "mean"), 3, 32, "train"),
        image("inception", "w32_d2_v2", Inception(32, 2, True), 4, 40),
    ),
)
