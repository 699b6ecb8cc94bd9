"""Drawn networks over pictures: stages of one kind of block, or of several, and a head.

Images are NHWC float32. A family is a kind of block; ``drawn_image_mixed`` draws one a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.xla.zoo.drawn.drawing import Drawing, Grammar, Network
from lib.collect.xla.zoo.program import Input
from lib.collect.xla.zoo.xla.layers import CLASSES, Attention, ConvNorm, SqueezeExcite, pool

ACTIVATIONS = (nn.relu, nn.gelu, nn.swish, nn.relu6, nn.leaky_relu)
SIZES = (4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192)  # of channels


@dataclass(frozen=True)
class Stage:
    """Some blocks of one resolution.

    Attributes:
        block: a name of :data:`BLOCKS`.
        widen: times as many channels as the first stage.
        repeats, kernel, groups, expand, excite: of the blocks, as far as they have such.
        norm: ``batch``, ``group`` or ``none``.
        activation: a function.
        down: how the resolution is halved before: ``stride``, ``max``, ``mean``, ``fold`` (pixels
            into channels) or ``none``.
    """

    block: str
    widen: float
    repeats: int
    kernel: int
    groups: int
    expand: int
    excite: bool
    norm: str
    activation: Callable
    down: str


class Block(nn.Module):
    """One block of a stage."""

    stage: Stage
    features: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return BLOCKS[self.stage.block](self, x)

    def conv(self, features: int, kernel: int = 0, groups: int = 1, act: bool = True) -> nn.Module:
        """A convolution with the stage's norm and activation."""
        s = self.stage
        activation = s.activation if act else None
        return ConvNorm(features, kernel or s.kernel, 1, groups, norm=s.norm, act=activation)


def _added(x: jax.Array, y: jax.Array, block: Block, after: bool = True) -> jax.Array:
    """A residual sum, projected where the channels change."""
    if x.shape != y.shape:
        x = block.conv(y.shape[-1], 1, act=False)(x)
    return block.stage.activation(x + y) if after else x + y


def plain(block: Block, x: jax.Array) -> jax.Array:
    """A convolution."""
    return block.conv(block.features)(x)


def residual(block: Block, x: jax.Array) -> jax.Array:
    """Two convolutions and a shortcut."""
    y = block.conv(block.features, act=False)(block.conv(block.features)(x))
    return _added(x, SqueezeExcite()(y) if block.stage.excite else y, block)


def bottleneck(block: Block, x: jax.Array) -> jax.Array:
    """Fewer channels in the middle, maybe in groups."""
    inner = max(8, block.features // 16 * 8)
    y = block.conv(inner, groups=block.stage.groups)(block.conv(inner, 1)(x))
    y = block.conv(block.features, 1, act=False)(y)
    return _added(x, SqueezeExcite()(y) if block.stage.excite else y, block)


def separable(block: Block, x: jax.Array) -> jax.Array:
    """Each channel by itself, then all of a pixel."""
    y = block.conv(x.shape[-1], groups=x.shape[-1])(x)
    return block.conv(block.features, 1)(y)


def inverted(block: Block, x: jax.Array) -> jax.Array:
    """More channels in the middle, each by itself."""
    wide = block.stage.expand * x.shape[-1]
    y = block.conv(wide, groups=wide)(block.conv(wide, 1)(x))
    y = SqueezeExcite()(y) if block.stage.excite else y
    y = block.conv(block.features, 1, act=False)(y)
    return x + y if x.shape == y.shape else y


def dense(block: Block, x: jax.Array) -> jax.Array:
    """What was before, beside what is new; then a projection."""
    for _ in range(block.stage.expand):
        x = jnp.concatenate([x, block.conv(max(8, block.features // 16 * 8))(x)], -1)
    return block.conv(block.features, 1)(x)


def branches(block: Block, x: jax.Array) -> jax.Array:
    """Several ways side by side, concatenated."""
    part = max(8, block.features // 16 * 8)
    ways = [
        block.conv(part, 1)(x),
        block.conv(part)(block.conv(part, 1)(x)),
        block.conv(part, 1)(pool(x, "mean", 3, 1)),
    ]
    if block.stage.expand > 2:
        ways.append(block.conv(part, 3)(block.conv(part, 3)(block.conv(part, 1)(x))))
    return block.conv(block.features, 1)(jnp.concatenate(ways, -1))


def modern(block: Block, x: jax.Array) -> jax.Array:
    """Large windows channel by channel, a norm, and two dense layers (ConvNeXt)."""
    if x.shape[-1] != block.features:
        x = nn.Dense(block.features)(x)
    y = nn.Conv(x.shape[-1], (7, 7), feature_group_count=x.shape[-1])(x)
    y = nn.Dense(block.stage.expand * x.shape[-1])(nn.LayerNorm()(y))
    return x + nn.Dense(x.shape[-1])(block.stage.activation(y))


def tokens(block: Block, x: jax.Array) -> jax.Array:
    """Pixels as tokens: dense layers over them, then over channels (MLP-Mixer)."""
    x = x if x.shape[-1] == block.features else nn.Dense(block.features)(x)
    batch, height, width, channels = x.shape
    y = x.reshape(batch, height * width, channels)
    mixed = nn.Dense(2 * channels)(nn.LayerNorm()(y).swapaxes(1, 2))
    y = y + nn.Dense(height * width)(block.stage.activation(mixed)).swapaxes(1, 2)
    wide = nn.Dense(block.stage.expand * channels)(nn.LayerNorm()(y))
    return (y + nn.Dense(channels)(block.stage.activation(wide))).reshape(x.shape)


def attention(block: Block, x: jax.Array) -> jax.Array:
    """Pixels as tokens that attend to each other, and a perceptron."""
    wide = -(-block.features // 8) * 8
    x = x if x.shape[-1] == wide else nn.Dense(wide)(x)
    y = x.reshape(x.shape[0], -1, wide)
    y = y + Attention(block.stage.groups if wide % block.stage.groups == 0 else 1)(
        nn.LayerNorm()(y)
    )
    hidden = nn.Dense(block.stage.expand * wide)(nn.LayerNorm()(y))
    return (y + nn.Dense(wide)(block.stage.activation(hidden))).reshape(x.shape)


def gated(block: Block, x: jax.Array) -> jax.Array:
    """A convolution times the sigmoid of another, beside what was there."""
    gate = nn.sigmoid(nn.Conv(block.features, (block.stage.kernel,) * 2)(x))
    return _added(x, block.conv(block.features)(x) * gate, block, after=False)


BLOCKS: dict[str, Callable[[Block, jax.Array], jax.Array]] = {
    block.__name__: block
    for block in (
        *(plain, residual, bottleneck, separable, inverted, dense, branches),
        *(modern, tokens, attention, gated),
    )
}
FLAT = ("tokens", "attention")  # those that want few pixels
HEAVY = ("dense", "branches", *FLAT)  # those of many operations


class DrawnVision(nn.Module):
    """Stem, stages, head."""

    stages: tuple[Stage, ...]
    channels: int
    stem: int  # pixels that it takes together
    head: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        first = self.stages[0]
        x = ConvNorm(self.channels, max(3, self.stem), self.stem, norm=first.norm)(x)
        seen = []
        for stage in self.stages:
            seen.append(x)
            x = self.halved(x, stage)
            features = max(8, round(self.channels * stage.widen / 8) * 8)
            for _ in range(stage.repeats):
                x = Block(stage, features)(x)
        return self.out(x, seen)

    def halved(self, x: jax.Array, stage: Stage) -> jax.Array:
        """Half the resolution, in the stage's way."""
        batch, height, width, channels = x.shape
        if stage.down in ("max", "mean"):
            return pool(x, stage.down)
        if stage.down == "stride":
            return ConvNorm(channels, 3, 2, norm=stage.norm)(x)
        if stage.down == "fold":
            x = x.reshape(batch, height // 2, 2, width // 2, 2, channels)
            return nn.Dense(channels)(x.swapaxes(2, 3).reshape(batch, height // 2, width // 2, -1))
        return x

    def out(self, x: jax.Array, seen: list[jax.Array]) -> jax.Array:
        """Classes of the picture, or values of every pixel."""
        if self.head == "flat":
            return nn.Dense(CLASSES)(nn.relu(nn.Dense(64)(x.reshape(x.shape[0], -1))))
        if self.head == "attended":
            y = x.reshape(x.shape[0], -1, x.shape[-1])
            weights = nn.softmax(nn.Dense(1)(y), 1)
            return nn.Dense(CLASSES)((weights * y).sum(1))
        if self.head == "pixels":
            for before in reversed(seen):
                if x.shape[1:3] != before.shape[1:3]:
                    x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
                x = ConvNorm(before.shape[-1], 3, norm="none")(jnp.concatenate([x, before], -1))
            return nn.Conv(8, (1, 1))(x)
        return nn.Dense(CLASSES)(x.mean((1, 2)))


def grammar(drawing: Drawing, blocks: Sequence[str]) -> Sequence[Callable[[], Network]]:
    """Networks of some kinds of blocks, all but their channels drawn."""
    norm, activation = drawing.pick("batch", "group", "none"), drawing.pick(*ACTIVATIONS)
    block = drawing.pick(*blocks)
    stages, widen = [], 1.0
    for number in range(drawing.number(*((1, 2) if drawing.train else (2, 3)))):
        block = drawing.pick(*blocks) if len(blocks) > 1 else block
        down = drawing.pick("stride", "max", "mean", "fold") if number else "none"
        widen *= drawing.pick(1.0, 1.5, 2.0) if number else 1.0
        stages.append(
            Stage(
                block,
                widen,
                drawing.number(1, 1 if drawing.train or block in HEAVY else 2),
                drawing.pick(3, 3, 3, 5, 1),
                drawing.pick(1, 2, 4),
                drawing.number(2, 4),
                drawing.chance(0.3),
                norm,
                activation,
                down,
            )
        )
    few = any(stage.block in FLAT for stage in stages)
    stem = drawing.pick(4, 4, 8) if few else drawing.pick(1, 2, 2, 4)
    least = 8 * stem  # pixels a side: what is left can be halved three times
    side = max(least, drawing.pick(*((32, 48, 64) if few else (24, 32, 48, 64))) // least * least)
    batch = drawing.pick(1, 1, 2, 4, 8)
    head = drawing.pick("mean", "mean", "flat", "attended", "pixels")
    loss = "mean_square" if head == "pixels" else "cross_entropy"

    def sized(channels: int, batch: int, side: int) -> Network:
        inputs = (Input((batch, side, side, 3)),)
        return Network(DrawnVision(tuple(stages), channels, stem, head), inputs, loss)

    channels = [width for width in SIZES if norm != "group" or width % 8 == 0]
    smaller = [(channels[0], 1, edge) for edge in range(least, side, least)]
    smaller += [(channels[0], count, side) for count in (1, 2, 4) if count < batch]
    sizes = [*smaller, *((width, batch, side) for width in channels)]
    return [partial(sized, *size) for size in sizes]


GRAMMARS: dict[str, Grammar] = {
    **{f"drawn_image_{name}": partial(grammar, blocks=(name,)) for name in BLOCKS},
    "drawn_image_mixed": partial(grammar, blocks=tuple(BLOCKS)),
}
