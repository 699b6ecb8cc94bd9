"""Language networks for pairs of texts, documents, tags, memories and speech."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from lib.collect.xla.zoo.nlp.layers import FeedForward, Language, PostNormBlock, dense, norm


class Deberta(Language):
    """DeBERTa (He et al. 2020): content and relative position attend to each other apart."""

    reach: int = 16

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x, size = nn.Embed(self.vocab, self.width)(tokens), self.width // self.heads
        places = np.arange(tokens.shape[1])
        offset = np.clip(places[:, None] - places[None] + self.reach, 0, 2 * self.reach)
        near = np.eye(2 * self.reach + 1, dtype=np.float32)[offset]  # (L, L, R)
        table = self.param("places", nn.initializers.normal(), (2 * self.reach + 1, self.width))
        for _ in range(self.depth):
            shape = (*tokens.shape, self.heads, size)
            q, k, v = (dense(self.width)(x).reshape(shape) for _ in range(3))
            r = dense(self.width)(table).reshape(-1, self.heads, size)
            scores = jnp.einsum("blhd,bmhd->bhlm", q, k)
            by_place = jnp.einsum("blhd,rhd->bhlr", q, r)
            scores += jnp.einsum("bhlr,lmr->bhlm", by_place, near)
            y = jnp.einsum("bhlm,bmhd->blhd", nn.softmax(scores / (2 * size) ** 0.5), v)
            x = norm()(x + dense(self.width)(y.reshape(x.shape)))
            x = norm()(x + FeedForward(2)(x))
        return nn.Dense(3)(x[:, 0])


class Entailment(Language):
    """Decomposable attention (Parikh et al. 2016): align two texts, compare, sum up."""

    @nn.compact
    def __call__(self, premise: jax.Array, hypothesis: jax.Array) -> jax.Array:
        table, aligner = nn.Embed(self.vocab, self.width), FeedForward(1, nn.relu)
        a, b = table(premise), table(hypothesis)
        scores = jnp.einsum("blw,bmw->blm", aligner(a), aligner(b)) / self.width**0.5
        beta = jnp.einsum("blm,bmw->blw", nn.softmax(scores), b)
        alpha = jnp.einsum("blm,blw->bmw", nn.softmax(scores, 1), a)
        x = jnp.stack([jnp.concatenate(pair, -1) for pair in ((a, beta), (b, alpha))])
        for _ in range(self.depth):
            x = nn.relu(nn.Dense(self.width)(x))
        x = x.sum(2).swapaxes(0, 1).reshape(len(premise), -1)
        return nn.Dense(3)(nn.relu(nn.Dense(self.width)(x)))


class MemoryNetwork(Language):
    """End-to-end memory network (Sukhbaatar et al. 2015): a question hops over sentences."""

    sentences: int = 16

    @nn.compact
    def __call__(self, story: jax.Array, question: jax.Array) -> jax.Array:
        shape = (len(story), self.sentences, -1, self.width)
        key, value = (
            nn.Embed(self.vocab, self.width)(story).reshape(shape).sum(2) for _ in range(2)
        )
        x = nn.Embed(self.vocab, self.width)(question).mean(1)
        for _ in range(self.depth):
            weight = nn.softmax(jnp.einsum("bw,bsw->bs", x, key) / self.width**0.5)
            x = dense(self.width)(x) + jnp.einsum("bs,bsw->bw", weight, value)
            x += nn.relu(nn.Dense(self.width)(norm()(x)))
        return dense(self.vocab)(x)


class Hierarchy(Language):
    """Hierarchical attention (Yang et al. 2016): words pooled to sentences, those to a text."""

    sentences: int = 8

    def pooled(self, x: jax.Array) -> jax.Array:
        """A weighted mean over the second axis, the weights by a learned question."""
        y = nn.tanh(nn.Dense(self.width)(x))
        weight = nn.softmax(nn.Dense(1, use_bias=False)(y), 1)
        return (weight * x).sum(1)

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(tokens)
        x = x.reshape(len(x) * self.sentences, -1, self.width)
        for _ in range(self.depth):
            x += nn.relu(nn.Conv(self.width, (3,))(x))
        x = self.pooled(x).reshape(len(tokens), self.sentences, self.width)
        for _ in range(self.depth):
            x += nn.relu(nn.Conv(self.width, (3,))(x))
        return nn.Dense(10)(self.pooled(x))


class CharTagger(Language):
    """A tagger of words by their letters (Ma and Hovy 2016), its recurrence a convolution."""

    letters: int = 8

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        batch, length = tokens.shape  # of letters, `letters` a word
        x = nn.Embed(128, self.width // 4)(tokens % 128)
        x = x.reshape(batch * length // self.letters, self.letters, -1)
        x = nn.relu(nn.Conv(self.width // 2, (3,))(x)).max(1)
        x = x.reshape(batch, length // self.letters, -1)
        words = nn.Embed(self.vocab, self.width // 2)(tokens[:, :: self.letters])
        x = jnp.concatenate([x, words], -1)
        for layer in range(self.depth):
            x += nn.relu(nn.Conv(self.width, (3,), kernel_dilation=2**layer)(norm()(x)))
        return nn.Dense(17)(x.reshape(-1, self.width))


class Transducer(Language):
    """Speech transducer (Graves 2012): every frame joined with every token already said."""

    @nn.compact
    def __call__(self, heard: jax.Array, said: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(heard)
        y = nn.Embed(self.vocab, self.width)(said)
        for _ in range(self.depth):
            x += FeedForward(2)(norm()(x))
            y += nn.relu(nn.Conv(self.width, (2,), padding="CAUSAL")(y))
        x, y = nn.Dense(self.width)(x), nn.Dense(self.width)(y)
        joint = nn.tanh(x[:, :, None] + y[:, None])  # (B, T, U, W)
        return nn.Dense(64)(joint)


class LateInteraction(Language):
    """ColBERT (Khattab and Zaharia 2020): each question token's best match, summed."""

    @nn.compact
    def __call__(self, questions: jax.Array, texts: jax.Array) -> jax.Array:
        x = self.embed(jnp.concatenate([questions, texts]))
        for _ in range(self.depth):
            x = PostNormBlock(self.heads)(x)
        x = dense(self.width // 2)(x)
        q, t = jnp.split(x / jnp.linalg.norm(x, axis=-1, keepdims=True), 2)
        return jnp.einsum("qlw,tmw->qtlm", q, t).max(-1).sum(-1)


class SkipGram(Language):
    """word2vec (Mikolov et al. 2013): a word's vector against those around and drawn ones."""

    drawn: int = 8

    @nn.compact
    def __call__(self, words: jax.Array, others: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.width)(words)  # (B, L, W)
        y = nn.Embed(self.vocab, self.width)(others)
        for _ in range(self.depth):
            x = x + dense(self.width)(nn.tanh(x))
        near = jnp.einsum("blw,bmw->blm", x, y)
        far = y.reshape(-1, self.drawn, self.width).mean(1)
        return jnp.concatenate(
            [near.reshape(-1, y.shape[1]), x.reshape(-1, self.width) @ far.T], -1
        )


class AdditiveDecoder(Language):
    """Bahdanau et al. (2014): a recurrent decoder, a few steps unrolled, attends additively."""

    steps: int = 4

    @nn.compact
    def __call__(self, source: jax.Array) -> jax.Array:
        memory = nn.Embed(self.vocab, self.width)(source)
        for _ in range(self.depth):
            memory += nn.relu(nn.Conv(self.width, (3,))(memory))
        keys, state = dense(self.width)(memory), memory.mean(1)
        query, score = dense(self.width), dense(1)
        update, reset, fresh = (nn.Dense(self.width) for _ in range(3))
        outputs = []
        for _ in range(self.steps):
            weight = nn.softmax(score(nn.tanh(keys + query(state)[:, None]))[..., 0])
            context = jnp.einsum("bl,blw->bw", weight, memory)
            joint = jnp.concatenate([state, context], -1)
            keep = nn.sigmoid(update(joint))
            new = nn.tanh(fresh(jnp.concatenate([nn.sigmoid(reset(joint)) * state, context], -1)))
            state = keep * state + (1 - keep) * new
            outputs.append(state)
        return self.logits(jnp.stack(outputs, 1))


FAMILIES = {
    "deberta": (Deberta, 1, "w128_d2_h4_b4_l64.f w64_d2_h2_r32_b4_l128.f"),
    "entailment": (Entailment, 2, "w256_d2_b8_l32.f w128_d1_b8_l32_v512.t w128_d3_b16_l64.f"),
    "memory_network": (
        MemoryNetwork,
        2,
        "w128_d3_s16_b48_l128.f w64_d2_s8_b128_l64_v512.t w256_d2_s32_b32_l128_v2048.f",
    ),
    "hierarchy": (
        Hierarchy,
        1,
        "w128_d2_s8_b8_l128.f w64_d1_s8_b16_l64_v512.t w192_d1_s16_b8_l128.f",
    ),
    "char_tagger": (
        CharTagger,
        1,
        "w128_d3_a8_b16_l256.f w64_d1_a8_b32_l128_v512.t w256_d2_a4_b4_l128.f",
    ),
    "transducer": (Transducer, 2, "w64_d2_b8_l48.f w128_d1_b4_l48.f"),
    "late_interaction": (LateInteraction, 2, "w128_d1_h4_b4_l32.f w64_d2_h2_b8_l32.f"),
    "skip_gram": (SkipGram, 2, "w128_d1_b32_l64.f w64_d1_b16_l64_v512.t w256_d2_b8_l64_v2048.f"),
    "additive_decoder": (AdditiveDecoder, 1, "w128_d2_t4_b8_l64.f w256_d1_t3_b4_l64_v512.f"),
}
