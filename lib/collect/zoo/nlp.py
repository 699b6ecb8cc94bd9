"""Language programs: small transformers, convolutional, recurrent and pooled text models.

A variant's name is its only setting: `bert.w128_d2_h4_b4_l32.forward` is the `Bert` below with
width 128, depth 2, heads 4, run forward on 4 texts of 32 tokens (`_LETTERS` names each letter).
"""

import functools
import itertools
import re
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from lib.collect.zoo.program import Input, Program, flax_program


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
_dense = functools.partial(nn.Dense, use_bias=False)
_norm = functools.partial(nn.LayerNorm, use_bias=False)


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
        q = _dense(x.shape[-1])(x).reshape(*x.shape[:2], self.heads, size)  # (B, L, H, D)
        k = _dense(groups * size)(memory).reshape(*memory.shape[:2], groups, size)
        v = _dense(groups * size)(memory).reshape(*memory.shape[:2], groups, size)
        if self.rotary:
            q, k = _rotate(q), _rotate(k)
        if groups < self.heads:
            k, v = _repeat(k, self.heads), _repeat(v, self.heads)
        q, k, v = (y.swapaxes(1, 2) for y in (q, k, v))  # (B, H, L, D)
        mixed = _attend(q, k, v, self.causal, bias).swapaxes(1, 2)
        return _dense(x.shape[-1])(mixed.reshape(x.shape))


class FusedAttention(nn.Module):
    """Causal self-attention with one product for queries, keys and values, as in GPT-2."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        mixed = _dense(3 * x.shape[-1])(x).reshape(*x.shape[:2], 3, self.heads, -1)
        q, k, v = mixed.transpose(2, 0, 3, 1, 4)  # (B, H, L, D) each
        mixed = _attend(q, k, v, causal=True).swapaxes(1, 2)
        return _dense(x.shape[-1])(mixed.reshape(x.shape))


class FeedForward(nn.Module):
    """Two dense layers around an activation; `gated` multiplies by a second branch (GLU)."""

    factor: int = 4
    activation: Callable = nn.gelu
    gated: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        hidden = self.activation(_dense(self.factor * x.shape[-1])(x))
        if self.gated:
            hidden *= _dense(self.factor * x.shape[-1])(x)
        return _dense(x.shape[-1])(hidden)


class PostNormBlock(nn.Module):
    """The encoder block of the first transformer: normalise after each residual sum."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = _norm()(x + Attention(self.heads)(x))
        return _norm()(x + FeedForward()(x))


class Bert(Language):
    """BERT: post-norm encoder and a masked-token head tied to the embeddings."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        table = nn.Embed(self.vocab, self.width)
        places = self.param("places", nn.initializers.normal(), (tokens.shape[1], self.width))
        x = _norm()(table(tokens) + places)
        for _ in range(self.depth):
            x = PostNormBlock(self.heads)(x)
        x = _norm()(nn.gelu(nn.Dense(self.width)(x.reshape(-1, self.width))))
        return table.attend(x)


class Albert(Language):
    """ALBERT: one block applied `depth` times, narrow embeddings, a classifier on token 0."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Dense(self.width)(self.embed(tokens, self.width // 4))
        block = PostNormBlock(self.heads)
        for _ in range(self.depth):
            x = block(x)
        return nn.Dense(3)(nn.tanh(nn.Dense(self.width)(x[:, 0])))


class Gpt(Language):
    """GPT-2: pre-norm causal decoder with a fused query, key and value product."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        for _ in range(self.depth):
            x += FusedAttention(self.heads)(_norm()(x))
            x += FeedForward()(_norm()(x))
        return self.logits(_norm()(x))


class T5(Language):
    """T5 encoder: RMSNorm, and a learned bias of the logarithm of the relative position."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        places = np.arange(tokens.shape[1])
        offset = places[None] - places[:, None]  # (L, L)
        bucket = np.sign(offset) * np.log2(1 + np.abs(offset)).astype(int) + 8
        bias = nn.Embed(17, self.heads)(bucket).transpose(2, 0, 1)  # (H, L, L)
        for _ in range(self.depth):
            x += Attention(self.heads)(nn.RMSNorm()(x), bias=bias)
            x += FeedForward(activation=nn.relu)(nn.RMSNorm()(x))
        return self.logits(nn.RMSNorm()(x))


class EncoderDecoder(Language):
    """The translation transformer: `depth` encoder blocks, then decoder with cross attention."""

    @nn.compact
    def __call__(self, source: jax.Array, target: jax.Array) -> jax.Array:
        table = nn.Embed(self.vocab, self.width)
        memory, x = table(source), table(target)
        for _ in range(self.depth):
            memory = PostNormBlock(self.heads)(memory)
        for _ in range(self.depth):
            x = _norm()(x + Attention(self.heads, causal=True)(x))
            x = _norm()(x + Attention(self.heads)(x, memory))
            x = _norm()(x + FeedForward(activation=nn.relu)(x))
        return self.logits(x)


class LinearAttention(Language):
    """Linear transformer: elu features, keys and values summed before the queries read them."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        for _ in range(self.depth):
            y = _norm()(x)
            shape = (self.heads, self.width // self.heads)
            q, k, v = (nn.DenseGeneral(shape)(y) for _ in range(3))  # (B, L, H, D)
            q, k = nn.elu(q) + 1, nn.elu(k) + 1
            state = jnp.einsum("blhd,blhe->bhde", k, v)
            norm = jnp.einsum("blhd,bhd->blh", q, k.sum(1))
            y = jnp.einsum("blhd,bhde->blhe", q, state) / norm[..., None]
            x += nn.Dense(self.width)(y.reshape(x.shape))
            x += FeedForward(2)(_norm()(x))
        return self.logits(x)


class TextMixer(Language):
    """MLP-Mixer over tokens: one MLP across positions, one across channels."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        for _ in range(self.depth):
            x += FeedForward(2)(_norm()(x).swapaxes(1, 2)).swapaxes(1, 2)
            x += FeedForward()(_norm()(x))
        return nn.Dense(20)(_norm()(x).mean(1))


class TextCnn(Language):
    """Kim's CNN for sentences: convolutions 3, 4 and 5 tokens wide, maxima over time."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        for _ in range(self.depth):
            maps = [nn.relu(nn.Conv(self.width // 2, (size,))(x)) for size in (3, 4, 5)]
            x = jnp.concatenate(maps, axis=-1)  # (B, L, 3 W / 2)
        x = nn.relu(nn.Dense(self.width)(x.max(1)))
        return nn.Dense(10)(x)


class ByteNet(Language):
    """ByteNet: causal convolutions of doubling dilation between narrow dense layers."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        for layer in range(self.depth):
            y = nn.Dense(self.width // 2)(nn.relu(_norm()(x)))
            y = nn.Conv(y.shape[-1], (3,), kernel_dilation=2**layer, padding="CAUSAL")(nn.relu(y))
            x += nn.Dense(self.width)(nn.relu(y))
        return self.logits(x)


class Lstm(nn.Module):
    """One LSTM step, its four gates from two dense products."""

    @nn.compact
    def __call__(self, carry: tuple, x: jax.Array) -> tuple[tuple, jax.Array]:
        cell, hidden = carry
        size = hidden.shape[-1]
        gates = (nn.Dense(4 * size)(x) + nn.Dense(4 * size, use_bias=False)(hidden)).reshape(
            -1, 4, size
        )
        keep, write, show = jnp.moveaxis(nn.sigmoid(gates[:, :3]), 1, 0)
        cell = keep * cell + write * nn.tanh(gates[:, 3])
        hidden = show * nn.tanh(cell)
        return (cell, hidden), hidden


class UnrolledRnn(Language):
    """A recurrent language model, its LSTM layers unrolled by hand over time."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        for _ in range(self.depth):
            cell, outputs = Lstm(), []
            carry = (jnp.zeros_like(x[:, 0]), jnp.zeros_like(x[:, 0]))
            for step in range(x.shape[1]):
                carry, y = cell(carry, x[:, step])
                outputs.append(y)
            x = jnp.stack(outputs, axis=1)
        return self.logits(x)


class EmbeddingClassifier(Language):
    """fastText and deep averaging: mean of word and word-pair embeddings, residual MLP."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        pairs = (tokens[:, 1:] * 31 + tokens[:, :-1]) % self.vocab
        words = nn.Embed(self.vocab, self.width)(tokens.reshape(-1))
        words = words.reshape(*tokens.shape, self.width).mean(1)
        pairs = nn.Embed(self.vocab, self.width)(pairs).mean(1)
        x = nn.Dense(self.width)(jnp.concatenate([words, pairs], axis=-1))
        for _ in range(self.depth):
            x += FeedForward(activation=nn.relu)(_norm()(x))
        return nn.Dense(100)(x)


class Llama(Language):
    """LLaMA: rotary positions, SwiGLU, RMSNorm, and keys shared by groups of heads."""

    groups: int = 2

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        for _ in range(self.depth):
            x += Attention(self.heads, self.groups, causal=True, rotary=True)(nn.RMSNorm()(x))
            x += FeedForward(2, nn.silu, gated=True)(nn.RMSNorm()(x))
        return self.logits(nn.RMSNorm()(x))


class Conformer(Language):
    """Conformer: half feed-forwards around attention and a gated depthwise convolution."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        for _ in range(self.depth):
            x += FeedForward(2, nn.silu)(_norm()(x)) / 2
            x += Attention(self.heads)(_norm()(x))
            y = nn.glu(nn.Dense(2 * self.width)(_norm()(x)))
            y = nn.Conv(self.width, (7,), feature_group_count=self.width)(y)
            x += nn.Dense(self.width)(nn.silu(_norm()(y)))
            x += FeedForward(2, nn.silu)(_norm()(x)) / 2
        return self.logits(_norm()(x))


class Longformer(Language):
    """Longformer: every block of `block` tokens attends to itself and its two neighbours."""

    block: int = 32

    def windows(self, x: jax.Array) -> jax.Array:
        """Each block beside its neighbours: (B, N, K, H, D) -> (B, N, 3 K, H, D)."""
        padded = jnp.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0), (0, 0)))
        return jnp.concatenate([padded[:, :-2], x, padded[:, 2:]], axis=2)

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        blocks = (len(x), -1, self.block, self.heads, self.width // self.heads)
        for _ in range(self.depth):
            y = _norm()(x)
            q, k, v = (nn.Dense(self.width)(y).reshape(blocks) for _ in range(3))
            scores = jnp.einsum("bnqhd,bnkhd->bnhqk", q, self.windows(k)) / blocks[-1] ** 0.5
            y = jnp.einsum("bnhqk,bnkhd->bnqhd", nn.softmax(scores), self.windows(v))
            x += nn.Dense(self.width)(y.reshape(x.shape))
            x += FeedForward(2)(_norm()(x))
        return nn.Dense(9)(x.reshape(-1, self.width))


class Perceiver(Language):
    """Perceiver: a few learned latents read the tokens, then attend to one another."""

    latents: int = 32

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        memory = _norm()(self.embed(tokens))
        start = self.param("latents", nn.initializers.normal(), (self.latents, self.width))
        x = jnp.broadcast_to(start, (len(tokens), *start.shape))
        for _ in range(self.depth):
            x += Attention(self.heads)(_norm()(x), memory)
            x += FeedForward(2)(_norm()(x))
            x += Attention(self.heads)(_norm()(x))
            x += FeedForward(2)(_norm()(x))
        return nn.Dense(20)(x.reshape(len(x), -1))


class MixtureOfExperts(Language):
    """Soft mixture of experts: gated sum of `experts` feed-forwards after each attention."""

    experts: int = 4

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x, normal = self.embed(tokens), nn.initializers.normal()
        for layer in range(self.depth):
            x += Attention(self.heads)(_norm()(x))
            y = _norm()(x).reshape(-1, self.width)  # (B * L, W)
            gate = nn.softmax(nn.Dense(self.experts)(y))
            up = self.param(f"up_{layer}", normal, (self.experts, self.width, 2 * self.width))
            down = self.param(f"down_{layer}", normal, (self.experts, 2 * self.width, self.width))
            y = jnp.einsum("enf,efw->enw", nn.gelu(jnp.einsum("nw,ewf->enf", y, up)), down)
            x += jnp.einsum("enw,ne->nw", y, gate).reshape(x.shape)
        return self.logits(x)


class DualEncoder(Language):
    """Retrieval by two towers: a shared encoder, scores between all questions and answers."""

    @nn.compact
    def __call__(self, questions: jax.Array, answers: jax.Array) -> jax.Array:
        x = self.embed(jnp.concatenate([questions, answers]))
        for _ in range(self.depth):
            x = PostNormBlock(self.heads)(x)
        x = nn.Dense(self.width)(x.mean(1)).reshape(2, -1, self.width)
        x /= jnp.sqrt((x**2).sum(-1, keepdims=True))
        return 10 * x[0] @ x[1].T


class BiaffineParser(Language):
    """Dependency parser: an encoder, then a bilinear score of every head and dependent."""

    labels: int = 8

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        for _ in range(self.depth):
            x = PostNormBlock(self.heads)(x)
        head, child = (nn.relu(nn.Dense(self.width // 2)(x)) for _ in range(2))
        size = head.shape[-1]
        weights = self.param("weights", nn.initializers.normal(), (self.labels, size, size))
        return jnp.einsum("bid,cde,bje->bijc", head, weights, child)


def _attend(
    q: jax.Array, k: jax.Array, v: jax.Array, causal: bool, bias: jax.Array | None = None
) -> jax.Array:
    """Softmax attention of heads first, (B, H, L, D)."""
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5  # (B, H, L, M)
    if bias is not None:
        scores += bias
    if causal:
        scores = jnp.where(np.tri(q.shape[2], dtype=bool), scores, -1e9)
    return nn.softmax(scores) @ v


def _repeat(x: jax.Array, heads: int) -> jax.Array:
    """Every head of a group given its own copy of the group's keys: (B, L, G, D), (B, L, H, D)."""
    batch, length, groups, size = x.shape
    shape = (batch, length, groups, heads // groups, size)
    return jnp.broadcast_to(x[:, :, :, None], shape).reshape(batch, length, heads, size)


def _rotate(x: jax.Array) -> jax.Array:
    """Rotary positions: each pair of channels turned by an angle of its place, (B, L, H, D)."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None] / 10_000 ** (np.arange(half) / half)  # (L, D / 2)
    cos, sin = (np.float32(f(angle))[:, None] for f in (np.cos, np.sin))
    even, odd = jnp.moveaxis(x.reshape(*x.shape[:-1], half, 2), -1, 0)
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


_LETTERS = {
    "w": "width",
    "d": "depth",
    "h": "heads",
    "v": "vocab",
    "g": "groups",
    "k": "block",
    "n": "latents",
    "e": "experts",
    "c": "labels",
    "b": "batch",
    "l": "length",
}

_FAMILIES: dict[str, tuple[type[Language], int, str]] = {  # module, inputs, variants
    "bert": (Bert, 1, "w128_d2_h4_b4_l32.f w256_d1_h8_b2_l64_v512.f w64_d2_h2_b8_l64_v512.f"),
    "gpt": (
        Gpt,
        1,
        (
            "w128_d2_h4_b2_l64.f w64_d1_h4_b8_l32_v512.t w64_d3_h4_b8_l32_v256.f "
            "w256_d1_h4_b1_l128_v512.f"
        ),
    ),
    "text_cnn": (
        TextCnn,
        1,
        "w128_d2_b8_l64.f w64_d1_b8_l64.t w64_d4_b8_l64.f w128_d1_b4_l64_v512.t w192_d2_b4_l64.f",
    ),
    "t5": (T5, 1, "w128_d2_h4_b2_l64.f w256_d1_h8_b4_l32_v2048.f w64_d3_h4_b8_l64_v256.f"),
    "bytenet": (
        ByteNet,
        1,
        (
            "w128_d4_b4_l128_v256.f w128_d2_b4_l64_v256.t w256_d3_b4_l64_v256.f "
            "w256_d1_b2_l64_v256.t w512_d1_b1_l64_v256.t"
        ),
    ),
    "albert": (Albert, 1, "w128_d2_h4_b4_l64.f w256_d2_h8_b2_l32.f w64_d3_h4_b8_l32.f"),
    "text_mixer": (
        TextMixer,
        1,
        (
            "w128_d3_b4_l64.f w64_d1_b8_l32.t w256_d2_b2_l64_v4096.f w128_d1_b4_l32.t "
            "w64_d3_b8_l128.f"
        ),
    ),
    "encoder_decoder": (
        EncoderDecoder,
        2,
        "w64_d1_h4_b8_l32.f w128_d1_h4_b4_l32_v512.f w256_d1_h8_b2_l16_v512.f",
    ),
    "unrolled_rnn": (
        UnrolledRnn,
        1,
        (
            "w128_d1_b16_l16.f w128_d1_b16_l4.t w256_d1_b16_l8.f w256_d1_b8_l3_v512.t "
            "w128_d2_b32_l6_v512.f"
        ),
    ),
    "linear_attention": (
        LinearAttention,
        1,
        "w128_d2_h4_b2_l128_v256.f w64_d2_h2_b8_l64_v256.f w256_d1_h8_b2_l64_v512.f",
    ),
    "embedding_classifier": (
        EmbeddingClassifier,
        1,
        (
            "w256_d3_b64_l64_v4096.f w128_d2_b64_l32.t w128_d4_b256_l32.f w256_d1_b32_l32.t "
            "w384_d1_b16_l32.t"
        ),
    ),
    "llama": (Llama, 1, "w128_d2_h4_g2_b2_l64.f w256_d1_h8_g2_b4_l32.f w64_d2_h4_g1_b8_l64_v512.f"),
    "longformer": (
        Longformer,
        1,
        "w128_d2_h4_k32_b2_l128.f w64_d3_h2_k16_b4_l128.f w256_d1_h8_k16_b1_l256.f",
    ),
    "perceiver": (
        Perceiver,
        1,
        "w128_d1_h4_n32_b4_l128.f w64_d1_h4_n16_b16_l128.f w256_d1_h8_n16_b2_l128.f",
    ),
    "dual_encoder": (DualEncoder, 2, "w128_d2_h4_b4_l16.f w64_d2_h4_b8_l32.f w256_d1_h2_b4_l32.f"),
    "conformer": (Conformer, 1, "w128_d1_h4_b2_l64_v256.f w64_d1_h2_b8_l64_v512.f"),
    "mixture_of_experts": (MixtureOfExperts, 1, "w128_d1_h4_e4_b4_l32.f w64_d2_h4_e8_b2_l64.f"),
    "biaffine_parser": (BiaffineParser, 1, "w128_d1_h4_c16_b4_l64.f w64_d2_h4_c16_b8_l64.f"),
}


def _program(family: str, text: str) -> Program:
    """The program that a family's name and a variant such as "w64_d2_b4_l32.t" spell out."""
    module, inputs, _ = _FAMILIES[family]
    variant, mode = text.split(".")
    pairs = re.findall(r"([a-z])(\d+)", variant)
    settings = {_LETTERS[letter]: int(number) for letter, number in pairs}
    shape = (settings.pop("batch"), settings.pop("length"))
    built = module(**settings)
    return flax_program(
        family=family,
        source="nlp",
        variant=variant,
        module=built,
        inputs=(Input(shape, built.vocab),) * inputs,
        mode={"f": "forward", "t": "train"}[mode],
    )


def _round_robin() -> tuple[Program, ...]:
    """The first variant of every family, then the second of each, and so on."""
    columns = itertools.zip_longest(
        *([(family, text) for text in row[2].split()] for family, row in _FAMILIES.items())
    )
    return tuple(_program(*cell) for column in columns for cell in column if cell)


PROGRAMS: tuple[Program, ...] = _round_robin()
