"""Convolutions, recurrence, pooled words, and attention that is linear, local or to latents."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from lib.collect.xla.zoo.nlp.layers import Attention, FeedForward, Language, norm


class LinearAttention(Language):
    """Linear transformer: elu features, keys and values summed before the queries read them."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        for _ in range(self.depth):
            y = norm()(x)
            shape = (self.heads, self.width // self.heads)
            q, k, v = (nn.DenseGeneral(shape)(y) for _ in range(3))  # (B, L, H, D)
            q, k = nn.elu(q) + 1, nn.elu(k) + 1
            state = jnp.einsum("blhd,blhe->bhde", k, v)
            total = jnp.einsum("blhd,bhd->blh", q, k.sum(1))
            y = jnp.einsum("blhd,bhde->blhe", q, state) / total[..., None]
            x += nn.Dense(self.width)(y.reshape(x.shape))
            x += FeedForward(2)(norm()(x))
        return self.logits(x)


class TextMixer(Language):
    """MLP-Mixer over tokens: one MLP across positions, one across channels."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        for _ in range(self.depth):
            x += FeedForward(2)(norm()(x).swapaxes(1, 2)).swapaxes(1, 2)
            x += FeedForward()(norm()(x))
        return nn.Dense(20)(norm()(x).mean(1))


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
            y = nn.Dense(self.width // 2)(nn.relu(norm()(x)))
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
            x += FeedForward(activation=nn.relu)(norm()(x))
        return nn.Dense(100)(x)


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
            y = norm()(x)
            q, k, v = (nn.Dense(self.width)(y).reshape(blocks) for _ in range(3))
            scores = jnp.einsum("bnqhd,bnkhd->bnhqk", q, self.windows(k)) / blocks[-1] ** 0.5
            y = jnp.einsum("bnhqk,bnkhd->bnqhd", nn.softmax(scores), self.windows(v))
            x += nn.Dense(self.width)(y.reshape(x.shape))
            x += FeedForward(2)(norm()(x))
        return nn.Dense(9)(x.reshape(-1, self.width))


class Perceiver(Language):
    """Perceiver: a few learned latents read the tokens, then attend to one another."""

    latents: int = 32

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        memory = norm()(self.embed(tokens))
        start = self.param("latents", nn.initializers.normal(), (self.latents, self.width))
        x = jnp.broadcast_to(start, (len(tokens), *start.shape))
        for _ in range(self.depth):
            x += Attention(self.heads)(norm()(x), memory)
            x += FeedForward(2)(norm()(x))
            x += Attention(self.heads)(norm()(x))
            x += FeedForward(2)(norm()(x))
        return nn.Dense(20)(x.reshape(len(x), -1))


FAMILIES = {
    "text_cnn": (
        TextCnn,
        1,
        "w128_d2_b8_l64.f w64_d1_b16_l64.t w64_d4_b8_l64.f w128_d1_b4_l64_v512.t w192_d2_b4_l64.f",
    ),
    "bytenet": (
        ByteNet,
        1,
        (
            "w128_d4_b4_l128_v256.f w128_d2_b4_l64_v256.t w256_d3_b4_l64_v256.f "
            "w256_d1_b2_l64_v256.t w512_d1_b1_l64_v256.t"
        ),
    ),
    "text_mixer": (
        TextMixer,
        1,
        (
            "w128_d3_b4_l64.f w64_d1_b8_l32.t w256_d2_b2_l64_v4096.f w128_d1_b4_l32.t "
            "w64_d3_b8_l128.f"
        ),
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
    "longformer": (
        Longformer,
        1,
        "w128_d2_h4_k32_b2_l128.f w64_d3_h2_k16_b4_l128.f w256_d1_h8_k16_b1_l256.f",
    ),
    "perceiver": (
        Perceiver,
        1,
        "w128_d1_h4_n32_b4_l128.f w64_d1_h4_n16_b24_l128.f w256_d1_h8_n16_b2_l128.f",
    ),
}
