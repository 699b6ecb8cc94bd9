"""Language networks that mix tokens without the usual attention: Fourier, gates, decay, windows."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from lib.collect.xla.zoo.nlp.layers import Attention, FeedForward, Language, attend, dense, norm


class FNet(Language):
    """FNet (Lee-Thorp et al. 2021): the real part of a Fourier transform over both axes."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        (cos_l, sin_l), (cos_w, sin_w) = (_waves(n) for n in x.shape[1:])
        for _ in range(self.depth):
            real, imaginary = x @ cos_w, x @ sin_w
            mixed = jnp.einsum("lm,bmw->blw", cos_l, real)
            mixed -= jnp.einsum("lm,bmw->blw", sin_l, imaginary)
            x = norm()(x + mixed)
            x = norm()(x + FeedForward(2)(x))
        return self.logits(x)


def _waves(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of the discrete Fourier transform, (size, size) float32, unitary."""
    angle = 2 * np.pi * np.outer(np.arange(size), np.arange(size)) / size
    return tuple((f(angle) / np.sqrt(size)).astype(np.float32) for f in (np.cos, np.sin))


class GatedMlp(Language):
    """gMLP (Liu et al. 2021): a gate made by a dense layer over the positions."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        for _ in range(self.depth):
            y = nn.gelu(nn.Dense(4 * self.width)(norm()(x)))
            keep, gate = jnp.split(y, 2, -1)
            gate = nn.Dense(tokens.shape[1])(norm()(gate).swapaxes(1, 2)).swapaxes(1, 2)
            x += nn.Dense(self.width)(keep * (1 + gate))
        return self.logits(norm()(x))


class RetNet(Language):
    """RetNet (Sun et al. 2023): products of queries and keys decay with distance, no softmax."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        places = np.arange(tokens.shape[1])
        distance = places[:, None] - places[None]
        rates = 1 - 2.0 ** (-5 - np.arange(self.heads))
        decay = np.where(distance >= 0, rates[:, None, None] ** np.maximum(distance, 0), 0)
        for _ in range(self.depth):
            y = nn.RMSNorm()(x)
            shape = (*y.shape[:2], self.heads, self.width // self.heads)
            q, k, v = (dense(self.width)(y).reshape(shape) for _ in range(3))
            scores = jnp.einsum("blhd,bmhd->bhlm", q, k) * decay.astype(np.float32)
            y = nn.GroupNorm(self.heads)(jnp.einsum("bhlm,bmhd->blhd", scores, v).reshape(x.shape))
            x += dense(self.width)(y * nn.silu(dense(self.width)(x)))
            x += FeedForward(2)(nn.RMSNorm()(x))
        return self.logits(nn.RMSNorm()(x))


class Funnel(Language):
    """Funnel transformer (Dai et al. 2020): pairs of tokens are pooled between blocks."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        for layer in range(self.depth):
            q = x.reshape(len(x), -1, 2, self.width).mean(2) if layer else x
            x = norm()(q + Attention(self.heads)(q, x))
            x = norm()(x + FeedForward(2)(x))
        return nn.Dense(20)(x.reshape(len(x), -1))


class Synthesizer(Language):
    """Synthesizer (Tay et al. 2020): attention weights from each token alone, by an MLP."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x, length = self.embed(tokens), tokens.shape[1]
        for _ in range(self.depth):
            y = norm()(x)
            scores = nn.Dense(self.heads * length)(nn.relu(nn.Dense(self.width)(y)))
            scores = scores.reshape(len(x), length, self.heads, length)
            v = dense(self.width)(y).reshape(len(x), length, self.heads, -1)
            y = jnp.einsum("blhm,bmhd->blhd", nn.softmax(scores), v)
            x += dense(self.width)(y.reshape(x.shape))
            x += FeedForward(2)(norm()(x))
        return self.logits(norm()(x))


class Nystrom(Language):
    """Nystromformer (Xiong et al. 2021): attention through means of segments as landmarks."""

    latents: int = 16

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        batch, length, size = *tokens.shape, self.width // self.heads
        for _ in range(self.depth):
            y = norm()(x)
            q, k, v = (
                dense(self.width)(y).reshape(batch, length, self.heads, size).swapaxes(1, 2)
                for _ in range(3)
            )
            marks = (batch, self.heads, self.latents, length // self.latents, size)
            few_q, few_k = q.reshape(marks).mean(3), k.reshape(marks).mean(3)
            y = attend(q, few_k, attend(few_q, k, v, causal=False), causal=False)
            x += dense(self.width)(y.swapaxes(1, 2).reshape(x.shape))
            x += FeedForward(2)(norm()(x))
        return self.logits(norm()(x))


FAMILIES = {
    "fnet": (FNet, 1, "w128_d2_b4_l64.f w64_d1_b4_l64_v512.t w256_d2_b2_l64_v512.f"),
    "gmlp": (GatedMlp, 1, "w128_d2_b4_l64.f w64_d1_b4_l64_v512.t w64_d3_b4_l128_v512.f"),
    "retnet": (RetNet, 1, "w128_d2_h4_b4_l64_v512.f w64_d2_h2_b4_l128_v512.f"),
    "funnel": (Funnel, 1, "w128_d3_h4_b8_l64.f w256_d2_h4_b4_l64.f"),
    "synthesizer": (Synthesizer, 1, "w128_d2_h4_b4_l64.f w64_d2_h2_b4_l128_v512.f"),
    "nystromformer": (Nystrom, 1, "w128_d2_h4_n16_b4_l128_v512.f w64_d2_h4_n32_b4_l256_v256.f"),
}
