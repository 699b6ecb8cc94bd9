// GELU and dropout in one pass, with the slope of both for the way back.
//
// A number is dropped according to a hash of its place and of 64 bits of torch's generator, so that
// the number of threads does not matter, and no mask is kept in addition to the slope.

#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include "common.h"

namespace tgraph {
namespace {

constexpr int64_t CHUNK = 1 << 14;  // numbers that a thread takes at least

// The draw of dropped numbers: share * 2^24 of 2^24 are left out.
struct Draw {
  uint32_t low, high;
  int32_t left_out;
  float factor;  // on numbers that are kept

  Draw(double share, uint64_t seed)
      : low((uint32_t)seed), high((uint32_t)(seed >> 32)),
        left_out((int32_t)(share * (1 << 24))), factor((float)(1 / (1 - share))) {}

  static INLINE uvec mixed(uvec x) {  // MurmurHash3's last steps: every bit depends on every bit
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ (x >> 16);
  }
  // The factor on sixteen numbers in a row, zero for those left out.
  INLINE vec at(int64_t place) const {
    const uvec lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    uvec drawn = mixed(lanes + ((uint32_t)place + low)) ^ (high + (uint32_t)(place >> 32));
    // Sign bits of the difference, on all lanes: the processor may have no other comparison.
    ivec left = ((ivec)(mixed(drawn) >> 8) - left_out) >> 31;
    return (vec)((ivec)splat(factor) & ~left);
  }
};

struct Activated {
  vec value, slope;
};

// GELU and its slope for any x. The normal distribution's tail is a polynomial times its density
// (Abramowitz and Stegun, 7.1.26): within 1e-7.
INLINE Activated activated(vec x) {
  vec size = larger(x, -x), power = exponential(-0.5f * x * x);
  vec t = reciprocal(1.0f + (0.3275911f * 0.70710678f) * size);
  vec p = splat(1.061405429f);
  p = p * t + -1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t + -0.284496736f;
  p = p * t + 0.254829592f;
  vec tail = 0.5f * p * t * power;
  vec below = choose(above(x, vec{}), 1.0f - tail, tail);
  return {x * below, below + x * power * 0.39894228f};
}

// One run of numbers; `slope` may be null.
template <bool DRAWN>
void run(const float* z, int64_t begin, int64_t end, const Draw& draw, float* out, float* slope) {
  auto take = [&](int64_t place, vec x) {
    Activated a = activated(x);
    if (DRAWN) {
      vec factor = draw.at(place);
      a.value *= factor;
      a.slope *= factor;
    }
    return a;
  };
  int64_t place = begin;
  for (; place + LANES <= end; place += LANES) {
    Activated a = take(place, load(z + place));
    store(out + place, a.value);
    if (slope) store(slope + place, a.slope);
  }
  if (place == end) return;
  float rest[LANES] = {};  // fewer than sixteen
  size_t size = (end - place) * sizeof(float);
  memcpy(rest, z + place, size);
  Activated a = take(place, load(rest));
  memcpy(out + place, &a.value, size);
  if (slope) memcpy(slope + place, &a.slope, size);
}

// GELU of contiguous float32 numbers with a share of them left out and the others scaled up
// accordingly; and its slope, empty unless `with_slope`.
std::tuple<Tensor, Tensor> gelu_dropout(const Tensor& z, double share, bool with_slope) {
  TORCH_CHECK(z.is_contiguous() && z.scalar_type() == at::kFloat, "contiguous float32 is wanted");
  uint64_t seed = 0;
  if (share > 0) {
    auto* generator = at::get_generator_or_default<at::CPUGeneratorImpl>(
        std::nullopt, at::detail::getDefaultCPUGenerator());
    std::lock_guard<std::mutex> lock(generator->mutex_);
    seed = generator->random64();
  }
  Draw draw(share, seed);
  Tensor out = at::empty_like(z);
  Tensor slope = with_slope ? at::empty_like(z) : at::empty({0}, z.options());
  const float* from = data<float>(z);
  float *to = data<float>(out), *kept = with_slope ? data<float>(slope) : nullptr;
  at::parallel_for(0, z.numel(), CHUNK, [&](int64_t begin, int64_t end) {
    if (share > 0)
      run<true>(from, begin, end, draw, to, kept);
    else
      run<false>(from, begin, end, draw, to, kept);
  });
  return {out, slope};
}

}  // namespace
}  // namespace tgraph

TORCH_LIBRARY_FRAGMENT(tgraph, m) { m.def("gelu_dropout", &tgraph::gelu_dropout); }
