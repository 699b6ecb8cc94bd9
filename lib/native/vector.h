// Sixteen floats at a time, in the compiler's own vector types: one source for every processor.
// Where it does not find the one instruction of AVX-512 by itself, it is named.
#pragma once

#include <cstdint>
#include <cstring>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace tgraph {

constexpr int LANES = 16;

typedef float vec __attribute__((vector_size(64)));
typedef int32_t ivec __attribute__((vector_size(64)));
typedef uint32_t uvec __attribute__((vector_size(64)));
typedef uint16_t hvec __attribute__((vector_size(32)));
typedef float vec_at __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t hvec_at __attribute__((vector_size(32), aligned(2), may_alias));

struct bfloat16 {
  uint16_t bits;
};

#define INLINE inline __attribute__((always_inline))

INLINE vec splat(float x) { return vec{} + x; }
INLINE vec load(const float* p) { return *reinterpret_cast<const vec_at*>(p); }
INLINE void store(float* p, vec x) { *reinterpret_cast<vec_at*>(p) = x; }

INLINE vec load(const bfloat16* p) {
#ifdef __AVX512F__
  return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16);
#endif
  hvec half = *reinterpret_cast<const hvec_at*>(p);
  return (vec)(__builtin_convertvector(half, uvec) << 16);
}

// Rounds to the nearest bfloat16, ties to even.
INLINE void store(bfloat16* p, vec x) {
#ifdef __AVX512BF16__
  hvec rounded = (hvec)_mm512_cvtneps_pbh((__m512)x);
  *reinterpret_cast<hvec_at*>(p) = rounded;
  return;
#endif
  uvec bits = (uvec)x;
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  *reinterpret_cast<hvec_at*>(p) = __builtin_convertvector(bits, hvec);
}

INLINE vec choose(ivec condition, vec yes, vec no) {
  return (vec)(((ivec)yes & condition) | ((ivec)no & ~condition));
}
#ifdef __AVX512F__
INLINE vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE float sum(vec x) { return _mm512_reduce_add_ps((__m512)x); }
// 1 / x by the processor's estimate of 14 bits and one step of Newton's: within 1e-7.
INLINE vec reciprocal(vec x) {
  vec estimate = (vec)_mm512_rcp14_ps((__m512)x);
  return estimate * (2.0f - x * estimate);
}
INLINE ivec above(vec a, vec b) { return a > b; }
#else
// Processors with shorter vectors take one of these in pieces. The compiler does that by itself,
// but for comparisons, which it would take one number at a time.
#ifdef __AVX2__
constexpr int PIECE = 32;
#else
constexpr int PIECE = 16;
#endif
constexpr int PIECES = 64 / PIECE;
typedef float piece __attribute__((vector_size(PIECE)));
typedef int32_t ipiece __attribute__((vector_size(PIECE)));
INLINE ivec above(vec a, vec b) {
  piece x[PIECES], y[PIECES];
  ipiece found[PIECES];
  memcpy(x, &a, sizeof a);
  memcpy(y, &b, sizeof b);
  for (int i = 0; i < PIECES; i++) found[i] = x[i] > y[i];
  ivec whole;
  memcpy(&whole, found, sizeof whole);
  return whole;
}
INLINE vec larger(vec a, vec b) { return choose(above(a, b), a, b); }
INLINE vec smaller(vec a, vec b) { return choose(above(b, a), a, b); }
INLINE float sum(vec x) {
  float lanes[LANES];
  memcpy(lanes, &x, sizeof lanes);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
  return lanes[0];
}
INLINE vec reciprocal(vec x) { return 1.0f / x; }
#endif

// e^x to a relative 2e-7: 2^n e^r with |r| <= ln 2 / 2, e^r by its series.
INLINE vec exponential(vec x) {
  x = smaller(larger(x, splat(-87.0f)), splat(88.0f));
  const vec shift = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  vec shifted = x * 1.44269504f + shift;
  vec n = shifted - shift;
  vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  vec p = splat(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return (vec)((ivec)p + (((ivec)shifted - (ivec)shift) << 23));
}

// The normal distribution and its density for |x| <= 1.02: polynomials of degree five in x^2,
// within 4e-9 (Chebyshev fits). Everything that a block's GELU sees is a part of a unit vector.
INLINE vec normal_distribution(vec x) {
  vec u = x * x;
  vec p = splat(-7.598927724e-06f);
  p = p * u + 1.133613076e-04f;
  p = p * u + -1.186232535e-03f;
  p = p * u + 9.973293118e-03f;
  p = p * u + -6.649035673e-02f;
  p = p * u + 3.989422801e-01f;
  return p * x + 0.5f;
}
INLINE vec normal_density(vec x) {
  vec u = x * x;
  vec p = splat(-8.032353333e-05f);
  p = p * u + 1.012609499e-03f;
  p = p * u + -8.297443619e-03f;
  p = p * u + 4.986445498e-02f;
  p = p * u + -1.994708461e-01f;
  p = p * u + 3.989422762e-01f;
  return p;
}
INLINE vec gelu(vec x) { return x * normal_distribution(x); }
INLINE vec gelu_slope(vec x) { return normal_distribution(x) + x * normal_density(x); }

}  // namespace tgraph
