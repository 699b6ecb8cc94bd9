// The end of a block: softmax across configurations, GELU and the residual, node by node
// (TGraph paper, equations 3 and 6). One node's vectors under all configurations fit in cache,
// so each is read once and each result written once.

#include <torch/library.h>

#include <numeric>

#include "common.h"

namespace tgraph {
namespace {

constexpr int64_t AHEAD = 4;  // nodes that are prefetched

// One node's rows of all configurations, as float32 side by side.
template <class T>
void gather(const T* x, const std::vector<int64_t>& places, int64_t stride, int64_t width,
            float* out) {
  for (size_t b = 0; b < places.size(); b++) {
    const T* row = x + places[b] * stride;
    for (int64_t c = 0; c < width; c += LANES) {
      store(out + b * width + c, load(row + c));
      __builtin_prefetch(row + AHEAD * width + c);
    }
  }
}

// Softmax over the configurations of one vector of channels: (configurations, 16) numerators side
// by side, and 1 / their sum.
INLINE vec attention(const float* eta, int64_t configurations, int64_t width, vec inverse_t,
                     float* powers) {
  vec largest = load(eta);
  for (int64_t b = 1; b < configurations; b++) largest = larger(largest, load(eta + b * width));
  vec added{};
  for (int64_t b = 0; b < configurations; b++) {
    vec power = exponential((load(eta + b * width) - largest) * inverse_t);
    store(powers + b * LANES, power);
    added += power;
  }
  return reciprocal(added);
}

// Results of cross_forward from x and from a node's two vectors, eta and eta * softmax.
enum Outcome : int64_t {
  WHOLE = 0,   // x + GELU(concat(both)), (b, n, 2 H)
  POOLED = 1,  // its mean over the nodes, (b, 2 H) float32; of GELU alone without x
  SECOND = 2,  // its second half alone, (b, n, H): the part that depends on the other
               // configurations of the batch
};

// `configurations`, where given, are those of the batch among all that x and eta hold.
Tensor cross_forward(const std::optional<Tensor>& x, const std::optional<Tensor>& index,
                     const Tensor& eta, const std::optional<Tensor>& configurations,
                     const Tensor& inverse_temperature, int64_t outcome) {
  int64_t b = configurations ? configurations->size(0) : eta.size(0);
  int64_t n = eta.size(1), half = eta.size(2), channels = 2 * half;
  bool pool = outcome == POOLED, whole = outcome == WHOLE;
  Tensor out = take({pool ? 0 : b, n, whole ? channels : half}, eta.options());
  Tensor pooled =
      at::zeros({thread_count(n), pool ? b : 0, channels}, eta.options().dtype(at::kFloat));
  vec inverse_t = splat(inverse_temperature.item<float>());
  std::vector<int64_t> places(b);
  for (int64_t k = 0; k < b; k++)
    places[k] = configurations ? data<int64_t>(*configurations)[k] : k;
  with_type(eta, [&](auto type) {
    using T = decltype(type);
    Cells<T> cells = x ? Cells<T>(*x, index, n) : Cells<T>();
    split(n, [&](int64_t thread, int64_t begin, int64_t end) {
      std::vector<float> etas(b * half), powers(b * LANES);
      std::vector<typename Cells<T>::Row> rows(b);
      float* sums = data<float>(pooled) + thread * b * channels;
      for (int64_t i = begin; i < end; i++) {
        gather(data<T>(eta) + i * half, places, n * half, half, etas.data());
        for (int64_t k = 0; x && k < b; k++) rows[k] = cells.row(places[k], i);
        for (int64_t c = 0; c < half; c += LANES) {
          vec inverse = attention(etas.data() + c, b, half, inverse_t, powers.data());
          for (int64_t k = 0; k < b; k++) {
            vec own = load(etas.data() + k * half + c), first{};
            vec second = gelu(own * load(powers.data() + k * LANES) * inverse);
            if (x) second += rows[k].at(half + c);
            if (outcome != SECOND) first = gelu(own);
            if (outcome != SECOND && x) first += rows[k].at(c);
            if (pool) {
              float* at = sums + k * channels + c;
              store(at, load(at) + first);
              store(at + half, load(at + half) + second);
            } else if (whole) {
              T* at = data<T>(out) + (k * n + i) * channels + c;
              store(at, first);
              store(at + half, second);
            } else {
              store(data<T>(out) + (k * n + i) * half + c, second);
            }
          }
        }
      }
    });
    return 0;
  });
  return pool ? total(pooled).div_(n) : out;
}

// Gradients of eta and of the temperature's logarithm; that of x is the output's own.
// With pooled outputs the gradient is (b, 2 H) float32, the same for every node.
std::tuple<Tensor, Tensor> cross_backward(const Tensor& gradient, const Tensor& eta,
                                          const Tensor& inverse_temperature) {
  int64_t b = eta.size(0), n = eta.size(1), half = eta.size(2), channels = 2 * half;
  bool pooled = gradient.dim() == 2;
  Tensor deta = take(eta.sizes(), eta.options());
  Tensor dlog = at::zeros({thread_count(n), LANES}, eta.options().dtype(at::kFloat));
  vec inverse_t = splat(inverse_temperature.item<float>());
  std::vector<int64_t> places(b);
  std::iota(places.begin(), places.end(), 0);
  with_type(eta, [&](auto type) {
    using T = decltype(type);
    split(n, [&](int64_t thread, int64_t begin, int64_t end) {
      std::vector<float> etas(b * half), powers(b * LANES), gradients(b * channels);
      vec log_gradient{};
      if (pooled)
        std::copy_n(data<float>(gradient), b * channels, gradients.data());
      for (int64_t i = begin; i < end; i++) {
        gather(data<T>(eta) + i * half, places, n * half, half, etas.data());
        if (!pooled)
          gather(data<T>(gradient) + i * channels, places, n * channels, channels, gradients.data());
        for (int64_t c = 0; c < half; c += LANES) {
          vec inverse = attention(etas.data() + c, b, half, inverse_t, powers.data());
          vec mean{};  // of the attention's gradient, weighed by the attention
          for (int64_t k = 0; k < b; k++) {
            float* power = powers.data() + k * LANES;
            vec p = load(power) * inverse, own = load(etas.data() + k * half + c);
            vec d = load(gradients.data() + k * channels + half + c) * gelu_slope(own * p) * own;
            store(power, p);
            mean += p * d;
          }
          for (int64_t k = 0; k < b; k++) {
            vec p = load(powers.data() + k * LANES), own = load(etas.data() + k * half + c);
            vec crossed = load(gradients.data() + k * channels + half + c) * gelu_slope(own * p);
            vec logit = p * (crossed * own - mean) * inverse_t;
            log_gradient -= logit * own;
            vec straight = load(gradients.data() + k * channels + c) * gelu_slope(own);
            store(data<T>(deta) + (k * n + i) * half + c, straight + crossed * p + logit);
          }
        }
      }
      store(data<float>(dlog) + thread * LANES, log_gradient);
    });
    return 0;
  });
  return {deta, dlog.sum()};
}

}  // namespace
}  // namespace tgraph

TORCH_LIBRARY_FRAGMENT(tgraph, m) {
  m.def("cross_forward", &tgraph::cross_forward);
  m.def("cross_backward", &tgraph::cross_backward);
}
