"""Drawn networks over tokens: layers of one way of mixing places, or of several, and a head.

A family is a way of mixing; ``drawn_text_mixed`` draws one for each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.xla.zoo.drawn.drawing import Drawing, Grammar, Network
from lib.collect.xla.zoo.nlp.layers import Attention, FusedAttention, dense
from lib.collect.xla.zoo.program import Input

WIDTHS = (32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512)
ACTIVATIONS = (nn.gelu, nn.relu, nn.swish)


@dataclass(frozen=True)
class Layer:
    """A way of mixing places, and a perceptron.

    Attributes:
        mixing: a name of :data:`MIXINGS`.
        heads, groups, reach, causal, rotary: of it, as far as it has such.
        factor, gated, activation: of the perceptron; a factor of 0 is for none.
        norm: ``before``, ``after`` or ``none``.
    """

    mixing: str
    heads: int
    groups: int
    reach: int
    causal: bool
    rotary: bool
    factor: int
    gated: bool
    activation: Callable
    norm: str


class Block(nn.Module):
    """One layer."""

    layer: Layer

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """(B, L, W) to the same."""
        x = self.beside(x, lambda y: MIXINGS[self.layer.mixing](self.layer, y))
        return self.beside(x, self.perceptron) if self.layer.factor else x

    def beside(self, x: jax.Array, part: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """A residual sum, normed where the layer norms."""
        y = part(nn.LayerNorm()(x) if self.layer.norm == "before" else x)
        return nn.LayerNorm()(x + y) if self.layer.norm == "after" else x + y

    def perceptron(self, x: jax.Array) -> jax.Array:
        """Two dense layers, maybe with a gate."""
        wide = self.layer.factor * x.shape[-1]
        hidden = self.layer.activation(nn.Dense(wide)(x))
        if self.layer.gated:
            hidden *= dense(wide)(x)
        return nn.Dense(x.shape[-1])(hidden)


def attention(layer: Layer, x: jax.Array) -> jax.Array:
    """Every place looks at every other, maybe with fewer keys than queries."""
    groups = max(1, layer.heads // layer.groups)
    return Attention(layer.heads, groups, layer.causal, layer.rotary)(x)


def fused(layer: Layer, x: jax.Array) -> jax.Array:
    """The same with one product for all of it."""
    return FusedAttention(layer.heads)(x)


def linear(layer: Layer, x: jax.Array) -> jax.Array:
    """Attention without a softmax over places: keys and values are summed first."""
    heads, size = layer.heads, x.shape[-1] // layer.heads
    split = (*x.shape[:2], heads, size)
    q, k, v = (dense(x.shape[-1])(x).reshape(split) for _ in range(3))
    q, k = nn.elu(q) + 1, nn.elu(k) + 1
    summed = jnp.einsum("blhd,blhe->bhde", k, v)
    mixed = jnp.einsum("blhd,bhde->blhe", q, summed)
    below = jnp.einsum("blhd,bhd->blh", q, k.sum(1))[..., None]
    return dense(x.shape[-1])((mixed / below).reshape(x.shape))


def low_rank(layer: Layer, x: jax.Array) -> jax.Array:
    """Attention to a few learned mixtures of places (Linformer)."""
    few = max(4, x.shape[1] // 4)
    memory = dense(few)(x.swapaxes(1, 2)).swapaxes(1, 2)
    return Attention(layer.heads)(x, memory)


def convolution(layer: Layer, x: jax.Array) -> jax.Array:
    """A window of places, and a gate."""
    wide = nn.Conv(2 * x.shape[-1], (layer.reach,), padding="CAUSAL" if layer.causal else "SAME")(x)
    value, gate = jnp.split(wide, 2, -1)
    return value * nn.sigmoid(gate)


def windows(layer: Layer, x: jax.Array) -> jax.Array:
    """Attention within blocks of places."""
    batch, length, width = x.shape
    block = max(4, length // layer.groups // 2)
    inside = x.reshape(batch * length // block, block, width)
    return Attention(layer.heads, causal=layer.causal)(inside).reshape(x.shape)


def places(layer: Layer, x: jax.Array) -> jax.Array:
    """Dense layers over places (MLP-Mixer)."""
    hidden = layer.activation(nn.Dense(2 * x.shape[1])(x.swapaxes(1, 2)))
    return nn.Dense(x.shape[1])(hidden).swapaxes(1, 2)


def pooled(layer: Layer, x: jax.Array) -> jax.Array:
    """The mean of a window of places, less the place itself (PoolFormer), projected."""
    window = (layer.reach,)
    return dense(x.shape[-1])(nn.avg_pool(x, window, (1,), "SAME") - x)


def latents(layer: Layer, x: jax.Array) -> jax.Array:
    """A few learned vectors read the text, and the text reads them (Perceiver)."""
    few = nn.Embed(max(4, x.shape[1] // 8), x.shape[-1])(jnp.arange(max(4, x.shape[1] // 8)))
    few = jnp.broadcast_to(few, (x.shape[0], *few.shape))
    return Attention(layer.heads)(x, Attention(layer.heads)(few, x))


def experts(layer: Layer, x: jax.Array) -> jax.Array:
    """A mixture of perceptrons, each place in its own measure."""
    count = 2 * layer.groups
    measure = nn.softmax(nn.Dense(count)(x))  # (B, L, E)
    hidden = layer.activation(dense(count * x.shape[-1])(x)).reshape(*x.shape[:2], count, -1)
    return dense(x.shape[-1])((hidden * measure[..., None]).sum(2))


MIXINGS: dict[str, Callable[[Layer, jax.Array], jax.Array]] = {
    mixing.__name__: mixing
    for mixing in (
        *(attention, fused, linear, low_rank, convolution),
        *(windows, places, pooled, latents, experts),
    )
}


class DrawnText(nn.Module):
    """Embedding, layers, head."""

    layers: tuple[Layer, ...]
    width: int
    vocabulary: int
    head: str

    @nn.compact
    def __call__(self, *texts: jax.Array) -> jax.Array | tuple[jax.Array, ...]:
        embed = nn.Embed(self.vocabulary, self.width)
        blocks = [Block(layer) for layer in self.layers]
        steps = self.param("places", nn.initializers.normal(), (texts[0].shape[1], self.width))
        read = []
        for tokens in texts:
            x = embed(tokens) + steps
            for block in blocks:
                x = block(x)
            read.append(x)
        return self.out(*read)

    def out(self, x: jax.Array, *rest: jax.Array) -> jax.Array | tuple[jax.Array, ...]:
        """What the head says."""
        if self.head == "words":
            return dense(self.vocabulary)(x.reshape(-1, x.shape[-1]))
        if self.head == "tags":
            return nn.Dense(16)(x)
        if self.head == "pairs":  # of texts: which belong together
            vectors = [nn.Dense(64)(y.mean(1)) for y in (x, *rest)]
            return vectors[0] @ vectors[1].T
        if self.head == "span":
            ends = nn.Dense(2)(x)
            return ends[..., 0], ends[..., 1]
        return nn.Dense(32)(nn.tanh(nn.Dense(x.shape[-1])(x[:, 0])))


def grammar(drawing: Drawing, mixings: Sequence[str]) -> Sequence[Callable[[], Network]]:
    """Networks of some ways of mixing, all but their width drawn."""
    norm, causal = drawing.pick("before", "after", "none"), drawing.chance(0.4)
    gated, activation = drawing.chance(0.3), drawing.pick(*ACTIVATIONS)
    heads, rotary = drawing.pick(2, 4, 8), drawing.chance(0.3)
    layers = []
    for _ in range(drawing.number(1, 1 if drawing.train else 3)):
        layers.append(
            Layer(
                drawing.pick(*mixings),
                heads,
                drawing.pick(1, 2, 4),
                drawing.pick(3, 5, 7),
                causal,
                rotary,
                drawing.pick(0, 2, 4, 4),
                gated,
                activation,
                norm,
            )
        )
    head = drawing.pick("words", "tags", "pairs", "span", "class")
    vocabulary = drawing.pick(256, 512, 1024)
    batch, length = drawing.pick(1, 2, 4, 8), drawing.pick(16, 32, 64, 128)
    batch = max(batch, 2) if head == "pairs" else batch
    inputs = (Input((batch, length), vocabulary),) * (2 if head == "pairs" else 1)
    loss = ("cross_entropy",) * 2 if head == "span" else "cross_entropy"

    def sized(width: int) -> Network:
        return Network(DrawnText(tuple(layers), width, vocabulary, head), inputs, loss)

    return [partial(sized, width) for width in WIDTHS if width // heads % 2 == 0]


GRAMMARS: dict[str, Grammar] = {
    **{f"drawn_text_{name}": partial(grammar, mixings=(name,)) for name in MIXINGS},
    "drawn_text_mixed": partial(grammar, mixings=tuple(MIXINGS)),
}
