"""Transformers with the usual attention: encoders, decoders, both, and heads on top of them."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from lib.collect.xla.zoo.nlp.layers import (
    Attention,
    FeedForward,
    FusedAttention,
    Language,
    PostNormBlock,
    norm,
)


class Bert(Language):
    """BERT: post-norm encoder and a masked-token head tied to the embeddings."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        table = nn.Embed(self.vocab, self.width)
        places = self.param("places", nn.initializers.normal(), (tokens.shape[1], self.width))
        x = norm()(table(tokens) + places)
        for _ in range(self.depth):
            x = PostNormBlock(self.heads)(x)
        x = norm()(nn.gelu(nn.Dense(self.width)(x.reshape(-1, self.width))))
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
            x += FusedAttention(self.heads)(norm()(x))
            x += FeedForward()(norm()(x))
        return self.logits(norm()(x))


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
            x = norm()(x + Attention(self.heads, causal=True)(x))
            x = norm()(x + Attention(self.heads)(x, memory))
            x = norm()(x + FeedForward(activation=nn.relu)(x))
        return self.logits(x)


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
            x += FeedForward(2, nn.silu)(norm()(x)) / 2
            x += Attention(self.heads)(norm()(x))
            y = nn.glu(nn.Dense(2 * self.width)(norm()(x)))
            y = nn.Conv(self.width, (7,), feature_group_count=self.width)(y)
            x += nn.Dense(self.width)(nn.silu(norm()(y)))
            x += FeedForward(2, nn.silu)(norm()(x)) / 2
        return self.logits(norm()(x))


class MixtureOfExperts(Language):
    """Soft mixture of experts: gated sum of `experts` feed-forwards after each attention."""

    experts: int = 4

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x, normal = self.embed(tokens), nn.initializers.normal()
        for layer in range(self.depth):
            x += Attention(self.heads)(norm()(x))
            y = norm()(x).reshape(-1, self.width)  # (B * L, W)
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


FAMILIES = {
    "bert": (Bert, 1, "w128_d2_h4_b4_l32.f w256_d1_h8_b2_l64_v512.f w64_d2_h2_b8_l64_v512.f"),
    "gpt": (
        Gpt,
        1,
        (
            "w128_d2_h4_b2_l64.f w64_d1_h4_b8_l32_v512.t w64_d3_h4_b8_l32_v256.f "
            "w256_d1_h4_b1_l128_v512.f"
        ),
    ),
    "t5": (T5, 1, "w128_d2_h4_b2_l64.f w256_d1_h8_b4_l32_v2048.f w64_d3_h4_b8_l64_v256.f"),
    "albert": (Albert, 1, "w128_d2_h4_b4_l64.f w256_d2_h8_b2_l32.f w64_d3_h4_b8_l32.f"),
    "encoder_decoder": (
        EncoderDecoder,
        2,
        "w64_d1_h4_b8_l32.f w128_d1_h4_b4_l32_v512.f w256_d1_h8_b2_l16_v512.f",
    ),
    "llama": (Llama, 1, "w128_d2_h4_g2_b2_l64.f w256_d1_h8_g2_b4_l32.f w64_d2_h4_g1_b8_l64_v512.f"),
    "conformer": (Conformer, 1, "w128_d1_h4_b2_l64_v256.f w64_d1_h2_b8_l64_v512.f"),
    "mixture_of_experts": (MixtureOfExperts, 1, "w128_d1_h4_e4_b4_l32.f w64_d2_h4_e8_b2_l64.f"),
    "dual_encoder": (DualEncoder, 2, "w128_d2_h4_b4_l16.f w64_d2_h4_b8_l32.f w256_d1_h2_b4_l32.f"),
    "biaffine_parser": (BiaffineParser, 1, "w128_d1_h4_c16_b4_l64.f w64_d2_h4_c16_b8_l64.f"),
}
