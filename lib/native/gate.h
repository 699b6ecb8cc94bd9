// Channel attention's two narrow matrices (TGraph paper, equation 5), in registers.
//
// With 16 hidden channels a matrix library is at a tenth of its speed, and each product would be a
// pass over memory of its own. Here a block of rows goes through both matrices while it is in the
// first cache; each weight that is loaded serves four rows. Where the processor multiplies pairs
// of bfloat16 and that is the type of the run, so does the gate.
#pragma once

#include "common.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace tgraph {

constexpr int BLOCK = 16;  // rows at a time; rows beyond the last are zero

// The type that a gate computes its products in, for a run in type T.
template <class T>
struct Narrow {
  using type = float;
};
#ifdef __AVX512BF16__
template <>
struct Narrow<bfloat16> {
  using type = bfloat16;
};
#endif

INLINE vec sigmoid(vec x) { return reciprocal(1.0f + exponential(-x)); }

// Two ways to multiply and add. Of a factor type F, `Pair<F>::SIZE` values lie side by side in a
// packed weight, and `multiply` adds their products with as many values of a row.
template <class F>
struct Pair;

template <>
struct Pair<float> {
  static constexpr int SIZE = 1;
  using packed = vec;
  static INLINE packed weight(const float* p) { return load(p); }
  static INLINE packed row(const float* p) { return splat(*p); }
  static INLINE packed columns(const float* p, int64_t) { return load(p); }
  static INLINE vec multiply(vec sum, packed a, packed b) { return sum + a * b; }
};

#ifdef __AVX512BF16__
template <>
struct Pair<bfloat16> {
  static constexpr int SIZE = 2;
  using packed = __m512bh;
  static INLINE packed weight(const bfloat16* p) { return (packed)_mm512_loadu_si512(p); }
  static INLINE packed row(const bfloat16* p) {
    int32_t both;
    memcpy(&both, p, sizeof both);
    return (packed)_mm512_set1_epi32(both);
  }
  // 16 columns of two rows that are `stride` apart, interleaved.
  static INLINE packed columns(const bfloat16* p, int64_t stride) {
    __m512i first = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
    __m512i second = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)(p + stride)));
    return (packed)_mm512_or_si512(first, _mm512_slli_epi32(second, 16));
  }
  static INLINE vec multiply(vec sum, packed a, packed b) {
    return (vec)_mm512_dpbf16_ps((__m512)sum, a, b);
  }
};
#endif

// (rows, 16 or H) as the loops read it: SIZE rows interleaved.
template <class F>
Tensor packed(const Tensor& weights) {
  constexpr int SIZE = Pair<F>::SIZE;
  if (SIZE == 1) return weights.contiguous();
  return weights.view({weights.size(0) / SIZE, SIZE, weights.size(1)})
      .transpose(1, 2)
      .to(scalar_type<F>())
      .contiguous();
}

// out[row][:16] = start + sum over c of rows[row][c] * weights[c][:16]
template <int V, class F>
INLINE void to_squeezed(const F* rows, const F* weights, vec start, float* out) {
  constexpr int H = V * LANES, SIZE = Pair<F>::SIZE, STEP = 2 * SIZE;
  for (int row = 0; row < BLOCK; row += 4) {
    vec kept[4] = {start, start, start, start}, more[4] = {};
    for (int c = 0; c < H; c += STEP) {
      auto weight = Pair<F>::weight(weights + c * LANES);
      auto next = Pair<F>::weight(weights + (c + SIZE) * LANES);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        const F* at = rows + (row + k) * H + c;
        kept[k] = Pair<F>::multiply(kept[k], Pair<F>::row(at), weight);
        more[k] = Pair<F>::multiply(more[k], Pair<F>::row(at + SIZE), next);
      }
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) store(out + (row + k) * LANES, kept[k] + more[k]);
  }
}

// rows[row][:] += sum over j of squeezed[row][j] * weights[j][:]
template <int V, class F>
INLINE void from_squeezed(const F* squeezed, int64_t count, const F* weights, float* rows) {
  constexpr int H = V * LANES, U = V < 4 ? V : 4, SIZE = Pair<F>::SIZE;
  for (int row = 0; row < BLOCK; row += 4)
    for (int v = 0; v < V; v += U) {
      float* at = rows + row * H + v * LANES;
      vec kept[4][U];
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++)
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) kept[k][u] = load(at + k * H + u * LANES);
      for (int64_t j = 0; j < count; j += SIZE) {
        typename Pair<F>::packed weight[U];
#pragma GCC unroll 4
        for (int u = 0; u < U; u++)
          weight[u] = Pair<F>::weight(weights + j * H + (v + u) * LANES * SIZE);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
          auto value = Pair<F>::row(squeezed + (row + k) * LANES + j);
#pragma GCC unroll 4
          for (int u = 0; u < U; u++) kept[k][u] = Pair<F>::multiply(kept[k][u], value, weight[u]);
        }
      }
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++)
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) store(at + k * H + u * LANES, kept[k][u]);
    }
}

// weights[j][:] += sum over rows of squeezed[row][j] * rows[row][:], eight j in registers.
template <int V, class F>
INLINE void add_outer(const F* squeezed, const F* rows, int64_t count, float* weights) {
  constexpr int H = V * LANES, SIZE = Pair<F>::SIZE;
  F factors[BLOCK * LANES];  // SIZE rows side by side
  for (int row = 0; row < BLOCK; row += SIZE) {
    auto both = Pair<F>::columns(squeezed + row * LANES, LANES);
    memcpy(factors + row * LANES, &both, sizeof both);
  }
  for (int64_t j = 0; j < count; j += 8)
    for (int v = 0; v < V; v++) {
      float* at = weights + j * H + v * LANES;
      vec kept[8];
#pragma GCC unroll 8
      for (int k = 0; k < 8; k++) kept[k] = load(at + k * H);
      for (int row = 0; row < BLOCK; row += SIZE) {
        auto x = Pair<F>::columns(rows + row * H + v * LANES, H);
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) {
          auto factor = Pair<F>::row(factors + row * LANES + (j + k) * SIZE);
          kept[k] = Pair<F>::multiply(kept[k], factor, x);
        }
      }
#pragma GCC unroll 8
      for (int k = 0; k < 8; k++) store(at + k * H, kept[k]);
    }
}

// eta = y * sigmoid(squeeze(relu(excitation(y)))), and gradients of that.
template <class F>
class Gate {
 public:
  // excitation (S, H), squeeze (H, S) with S <= 16; padded with zeros to 16.
  Gate(const Tensor& excitation, const Tensor& excitation_bias, const Tensor& squeeze,
       const Tensor& squeeze_bias) {
    count_ = (excitation.size(0) + 7) / 8 * 8;
    Tensor e = at::zeros({LANES, excitation.size(1)}, excitation.options());
    e.narrow(0, 0, excitation.size(0)).copy_(excitation);
    Tensor s = at::zeros({LANES, squeeze.size(0)}, squeeze.options());
    s.narrow(0, 0, squeeze.size(1)).copy_(squeeze.t());
    excitation_ = packed<F>(e);
    excitation_t_ = packed<F>(e.t().contiguous());
    squeeze_ = packed<F>(s);
    squeeze_t_ = packed<F>(s.t().contiguous());
    excitation_bias_ = at::zeros({LANES}, excitation.options());
    excitation_bias_.narrow(0, 0, excitation.size(0)).copy_(excitation_bias);
    squeeze_bias_ = squeeze_bias.contiguous();
  }

  // BLOCK rows to their hidden channels h and to the logits of their gates.
  template <int V>
  INLINE void logits(const F* rows, F* h, float* out) const {
    float hidden[BLOCK * LANES];
    to_squeezed<V>(rows, data<F>(excitation_t_), load(data<float>(excitation_bias_)), hidden);
    for (int row = 0; row < BLOCK; row++) {
      store(h + row * LANES, larger(load(hidden + row * LANES), vec{}));
      for (int v = 0; v < V; v++)
        store(out + (row * V + v) * LANES, load(data<float>(squeeze_bias_) + v * LANES));
    }
    from_squeezed<V>(h, count_, data<F>(squeeze_), out);
  }

  // Gradients of BLOCK rows from the slopes, their gates' logits' gradients: added to `rows`.
  template <int V>
  INLINE void backward(const F* slopes, const F* h, F* hidden, float* rows) const {
    float gradients[BLOCK * LANES];
    to_squeezed<V>(slopes, data<F>(squeeze_t_), vec{}, gradients);
    for (int row = 0; row < BLOCK; row++)
      store(hidden + row * LANES, choose(above(load(h + row * LANES), vec{}),
                                         load(gradients + row * LANES), vec{}));
    from_squeezed<V>(hidden, count_, data<F>(excitation_), rows);
  }

  int64_t count() const { return count_; }

 private:
  int64_t count_;  // hidden channels, to a multiple of eight
  Tensor excitation_, excitation_t_, excitation_bias_, squeeze_, squeeze_t_, squeeze_bias_;
};

// Gradients of a gate's weights, summed over the rows that one thread works on.
struct GateGradients {
  float *excitation, *excitation_bias, *squeeze, *squeeze_bias;  // (16, H), (16), (16, H), (H)

  template <int V, class F>
  INLINE void add(const F* units, const F* h, const F* slopes, const F* hidden, int64_t count) {
    add_outer<V>(h, slopes, count, squeeze);
    add_outer<V>(hidden, units, count, excitation);
    for (int row = 0; row < BLOCK; row++)
      store(excitation_bias, load(excitation_bias) + load(hidden + row * LANES));
    for (int c = 0; c < V * LANES; c += LANES) {
      vec added = load(squeeze_bias + c);
      for (int row = 0; row < BLOCK; row++) added += load(slopes + row * V * LANES + c);
      store(squeeze_bias + c, added);
    }
  }
};

}  // namespace tgraph
