// A block up to its cross-configuration attention, one configuration after the other, in cache:
// instance norm, GraphSAGE, L2 norm and channel attention (TGraph paper, equations 2, 3 and 5).
//
// The matrix product of all cells with both of GraphSAGE's weights is the library's; everything
// around it is done in as few passes as there are dependencies, on a few configurations at a
// time, so that no intermediate of (configurations, nodes, channels) is ever written out.

#include <torch/library.h>

#include "common.h"
#include "gate.h"

namespace tgraph {
namespace {

constexpr int WIDE = 2;  // vectors of channels that a pass over nodes takes at once

struct Graph {
  const int32_t *sources, *pointers;
  int64_t nodes;
  int32_t degree(int64_t i) const { return pointers[i + 1] - pointers[i]; }
};

// Mean and 1 / deviation over the nodes of one configuration, (channels) each.
template <class T>
void moments(const Cells<T>& x, int64_t configuration, float* mean, float* scale) {
  for (int64_t c = 0; c < x.channels; c += WIDE * LANES) {
    vec first[WIDE], added[WIDE] = {}, squared[WIDE] = {};
    for (int v = 0; v < WIDE; v++) first[v] = x.at(configuration, 0, c + v * LANES);
    for (int64_t i = 0; i < x.nodes; i++)
#pragma GCC unroll 4
      for (int v = 0; v < WIDE; v++) {
        vec distance = x.at(configuration, i, c + v * LANES) - first[v];  // no cancellation
        added[v] += distance;
        squared[v] += distance * distance;
      }
    for (int v = 0; v < WIDE; v++) {
      vec offset = added[v] / (float)x.nodes;
      vec variance = larger(squared[v] / (float)x.nodes - offset * offset, vec{});
      store(mean + c + v * LANES, first[v] + offset);
      store(scale + c + v * LANES, variance + EPSILON);
      for (int l = 0; l < LANES; l++)
        scale[c + v * LANES + l] = 1 / std::sqrt(scale[c + v * LANES + l]);
    }
  }
}

template <class T>
void normalize(const Cells<T>& x, int64_t configuration, const float* mean, const float* scale,
               T* out) {
  for (int64_t c = 0; c < x.channels; c += WIDE * LANES) {
    vec centre[WIDE], factor[WIDE];
    for (int v = 0; v < WIDE; v++) {
      centre[v] = load(mean + c + v * LANES);
      factor[v] = load(scale + c + v * LANES);
    }
    for (int64_t i = 0; i < x.nodes; i++)
#pragma GCC unroll 4
      for (int v = 0; v < WIDE; v++)
        store(out + i * x.channels + c + v * LANES,
              (x.at(configuration, i, c + v * LANES) - centre[v]) * factor[v]);
  }
}

// u of one node: its own product, its neighbours' messages and the biases.
template <class T, int V>
INLINE void gathered(const T* products, const Graph& graph, int64_t i, vec (&u)[V]) {
  constexpr int H = V * LANES;
#pragma GCC unroll 8
  for (int v = 0; v < V; v++) u[v] += load(products + i * 2 * H + v * LANES);
  for (int32_t e = graph.pointers[i]; e < graph.pointers[i + 1]; e++) {
    const T* message = products + graph.sources[e] * 2 * H + H;
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) u[v] += load(message + v * LANES);
  }
}

// From a configuration's products to its unit vectors y, 1 / norms and gated vectors eta.
template <class T, int V, class F>
void finish(const T* products, const T* addend, const Graph& graph, const float* bias,
            const float* degree_bias, const Gate<F>& gate, T* y, float* inverse, T* eta) {
  constexpr int H = V * LANES;
  float units[BLOCK * H], logits[BLOCK * H];
  F rows[BLOCK * H] = {}, h[BLOCK * LANES];
  for (int64_t begin = 0; begin < graph.nodes; begin += BLOCK) {
    int64_t count = std::min<int64_t>(BLOCK, graph.nodes - begin);
    for (int64_t row = 0; row < count; row++) {
      int64_t i = begin + row;
      float degree = graph.degree(i);
      vec u[V], squares{};
#pragma GCC unroll 8
      for (int v = 0; v < V; v++)
        u[v] = load(bias + v * LANES) + degree * load(degree_bias + v * LANES);
      gathered<T, V>(products, graph, i, u);
      if (addend) gathered<T, V>(addend, graph, i, u);
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) squares += u[v] * u[v];
      inverse[i] = 1 / std::max(std::sqrt(sum(squares)), SMALLEST_NORM);
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) {
        u[v] *= inverse[i];
        store(units + row * H + v * LANES, u[v]);
        store(rows + row * H + v * LANES, u[v]);
        if (y) store(y + i * H + v * LANES, u[v]);
      }
    }
    gate.template logits<V>(rows, h, logits);
    for (int64_t at = 0; at < count * H; at += LANES)
      store(eta + begin * H + at, load(units + at) * sigmoid(load(logits + at)));
  }
}

// From gradients of eta to those of u, the vectors before their L2 norm, in products[:, :H], and
// to those of the messages, in products[:, H:].
template <class T, int V, class F>
void unfinish(const T* eta_gradient, const T* y, const float* inverse, const Graph& graph,
              const Gate<F>& gate, GateGradients& sums, float* bias, float* degree_bias,
              T* products) {
  constexpr int H = V * LANES;
  F units[BLOCK * H] = {}, slopes[BLOCK * H] = {}, h[BLOCK * LANES], hidden[BLOCK * LANES];
  float logits[BLOCK * H], du[BLOCK * H] = {};
  vec bias_sum[V] = {}, degree_sum[V] = {};
  for (int64_t begin = 0; begin < graph.nodes; begin += BLOCK) {
    int64_t count = std::min<int64_t>(BLOCK, graph.nodes - begin);
    for (int64_t at = count * H; at < BLOCK * H; at += LANES) {
      store(units + at, vec{});
      store(slopes + at, vec{});
    }
    for (int64_t at = 0; at < count * H; at += LANES) store(units + at, load(y + begin * H + at));
    gate.template logits<V>(units, h, logits);
    for (int64_t at = 0; at < count * H; at += LANES) {
      vec g = sigmoid(load(logits + at)), straight = load(eta_gradient + begin * H + at) * g;
      store(slopes + at, straight * load(units + at) * (1.0f - g));
      store(du + at, straight);
    }
    gate.template backward<V>(slopes, h, hidden, du);
    sums.add<V>(units, h, slopes, hidden, gate.count());
    for (int64_t row = 0; row < count; row++) {
      int64_t i = begin + row;
      const float* gradients = du + row * H;
      const F* unit = units + row * H;
      vec along{};
      for (int c = 0; c < H; c += LANES) along += load(gradients + c) * load(unit + c);
      float projection = sum(along), degree = graph.degree(i);
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) {
        vec gradient = inverse[i] * (load(gradients + v * LANES) -
                                     projection * load(unit + v * LANES));
        store(products + i * 2 * H + v * LANES, gradient);
        bias_sum[v] += gradient;
        degree_sum[v] += degree * gradient;
      }
    }
  }
  for (int v = 0; v < V; v++) {
    store(bias + v * LANES, load(bias + v * LANES) + bias_sum[v]);
    store(degree_bias + v * LANES, load(degree_bias + v * LANES) + degree_sum[v]);
  }
  // Messages: the neighbour relation is symmetric, so its transpose is the same sum.
  for (int64_t i = 0; i < graph.nodes; i++) {
    vec added[V] = {};
    for (int32_t e = graph.pointers[i]; e < graph.pointers[i + 1]; e++)
#pragma GCC unroll 8
      for (int v = 0; v < V; v++)
        added[v] += load(products + graph.sources[e] * 2 * H + v * LANES);
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) store(products + i * 2 * H + H + v * LANES, added[v]);
  }
}

Graph graph_of(const Tensor& sources, const Tensor& pointers) {
  return {data<int32_t>(sources), data<int32_t>(pointers), pointers.size(0) - 1};
}

int64_t configurations_of(const Tensor& x, const std::optional<Tensor>& index) {
  return index ? index->size(0) : x.size(0);
}

template <class Call>
void with_width(int64_t half, const Call& call) {
  switch (half / LANES) {
    case 2: return call(std::integral_constant<int, 2>{});
    case 4: return call(std::integral_constant<int, 4>{});
    case 8: return call(std::integral_constant<int, 8>{});
  }
  TORCH_CHECK(false, "half of the channels must be 32, 64 or 128, not ", half);
}

// x + GELU(eta) of the first half of the channels, which does not depend on the other
// configurations of a batch: its mean over the nodes, (b, H) float32, and the products of its
// instance norm with its part of GraphSAGE's weights, (b, n, 2 H).
std::tuple<Tensor, Tensor> first_half(const Tensor& x, const std::optional<Tensor>& index,
                                      const Tensor& eta, const Tensor& weight) {
  int64_t b = eta.size(0), n = eta.size(1), half = eta.size(2);
  Tensor products = take({b, n, weight.size(0)}, eta.options());
  Tensor mean = at::empty({b, half}, eta.options().dtype(at::kFloat)), weight_t = weight.t();
  with_type(weight, [&](auto type) {
    using T = decltype(type);
    Cells<T> cells(x, index, n);
    split(b, [&](int64_t, int64_t begin, int64_t end) {
      Tensor sums = take({n, half}, eta.options()), normal = take({n, half}, eta.options());
      Cells<T> summed(data<T>(sums), n, half);
      std::vector<float> scale(half);
      for (int64_t k = begin; k < end; k++) {
        for (int64_t i = 0; i < n; i++)
          for (int64_t c = 0; c < half; c += LANES)
            store(data<T>(sums) + i * half + c,
                  cells.at(k, i, c) + gelu(load(data<T>(eta) + (k * n + i) * half + c)));
        float* means = data<float>(mean) + k * half;
        moments(summed, 0, means, scale.data());
        normalize(summed, 0, means, scale.data(), data<T>(normal));
        Tensor out = products[k];
        at::mm_out(out, normal, weight_t);
      }
    });
    return 0;
  });
  return {mean, products};
}

using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Five local_forward(const Tensor& x, const std::optional<Tensor>& index, const Tensor& sources,
                   const Tensor& pointers, const Tensor& weight,
                   const std::optional<Tensor>& addend,
                   const std::optional<Tensor>& configurations, const Tensor& bias,
                   const Tensor& degree_bias, const Tensor& excitation,
                   const Tensor& excitation_bias, const Tensor& squeeze_weight,
                   const Tensor& squeeze_bias, bool keep) {
  Graph graph = graph_of(sources, pointers);
  int64_t n = graph.nodes, b = configurations_of(x, index), channels = x.size(-1);
  int64_t half = weight.size(0) / 2;
  auto float32 = weight.options().dtype(at::kFloat);
  Tensor y = take({keep ? b : 0, n, half}, weight.options());
  Tensor inverse = at::empty({b, n}, float32), eta = take({b, n, half}, weight.options());
  Tensor mean = at::empty({b, channels}, float32), scale = at::empty({b, channels}, float32);
  Tensor weight_t = weight.t();
  auto place = [&](int64_t k) { return configurations ? data<int64_t>(*configurations)[k] : k; };
  with_type(weight, [&](auto type) {
    using T = decltype(type);
    using F = typename Narrow<T>::type;
    Cells<T> cells(x, index, n);
    Gate<F> gate(excitation, excitation_bias, squeeze_weight, squeeze_bias);
    with_width(half, [&](auto width) {
      constexpr int V = decltype(width)::value;
      split(b, [&](int64_t, int64_t begin, int64_t end) {
        int64_t group = std::max<int64_t>(1, ROWS / n);
        Tensor normal = take({std::min(group, end - begin) * n, channels}, weight.options());
        Tensor products = take({normal.size(0), 2 * half}, weight.options());
        for (int64_t at = begin; at < end; at += group) {
          int64_t count = std::min(group, end - at);
          Tensor in = normal.narrow(0, 0, count * n), out = products.narrow(0, 0, count * n);
          for (int64_t k = 0; k < count; k++) {
            float *m = data<float>(mean) + (at + k) * channels;
            float *s = data<float>(scale) + (at + k) * channels;
            moments(cells, at + k, m, s);
            normalize(cells, at + k, m, s, data<T>(in) + k * n * channels);
          }
          at::mm_out(out, in, weight_t);
          for (int64_t k = 0; k < count; k++)
            finish<T, V, F>(data<T>(out) + k * n * 2 * half,
                         addend ? data<T>(*addend) + place(at + k) * n * 2 * half : nullptr, graph,
                         data<float>(bias), data<float>(degree_bias), gate,
                         keep ? data<T>(y) + (at + k) * n * half : nullptr,
                         data<float>(inverse) + (at + k) * n, data<T>(eta) + (at + k) * n * half);
        }
      });
    });
    return 0;
  });
  return {y, inverse, eta, mean, scale};
}

// Gradient of the norm's input from that of its output, for one configuration:
// scale * (d - mean(d) - normal * mean(d * normal)), plus what else flows to the input.
template <class T, class Add>
INLINE void unnormalize(const T* gradient, const T* normal, const float* scale, int64_t n,
                        int64_t channels, const Add& add) {
  for (int64_t c = 0; c < channels; c += WIDE * LANES) {
    vec added[WIDE] = {}, along[WIDE] = {}, factor[WIDE];
    for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 4
      for (int v = 0; v < WIDE; v++) {
        vec d = load(gradient + i * channels + c + v * LANES);
        added[v] += d;
        along[v] += d * load(normal + i * channels + c + v * LANES);
      }
    for (int v = 0; v < WIDE; v++) {
      factor[v] = load(scale + c + v * LANES);
      added[v] *= factor[v] / (float)n;
      along[v] *= factor[v] / (float)n;
    }
    for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 4
      for (int v = 0; v < WIDE; v++) {
        int64_t at = i * channels + c + v * LANES;
        add(i, c + v * LANES,
            factor[v] * load(gradient + at) - added[v] - along[v] * load(normal + at));
      }
  }
}

std::vector<Tensor> local_backward(
    const Tensor& eta_gradient, const Tensor& residual, const Tensor& x,
    const std::optional<Tensor>& index, const Tensor& sources, const Tensor& pointers,
    const Tensor& weight, const Tensor& excitation, const Tensor& excitation_bias,
    const Tensor& squeeze_weight, const Tensor& squeeze_bias, const Tensor& y,
    const Tensor& inverse, const Tensor& mean, const Tensor& scale) {
  Graph graph = graph_of(sources, pointers);
  int64_t n = graph.nodes, b = configurations_of(x, index), channels = x.size(-1);
  int64_t half = weight.size(0) / 2, parts = thread_count(b);
  auto float32 = weight.options().dtype(at::kFloat);
  // Without an index, each cell has its own gradient; with one, a thread sums those of a row.
  Tensor dx = index ? at::zeros({parts, x.size(0), channels}, float32)
                    : take({b, n, channels}, weight.options());
  Tensor dweight = at::zeros({parts, 2 * half, channels}, float32);
  Tensor dbias = at::zeros({parts, half}, float32), ddegree = at::zeros({parts, half}, float32);
  Tensor de = at::zeros({parts, LANES, half}, float32), ds = at::zeros({parts, LANES, half}, float32);
  Tensor de_bias = at::zeros({parts, LANES}, float32), ds_bias = at::zeros({parts, half}, float32);
  bool pooled = residual.dim() == 2;  // (b, channels) float32: the same for every node
  with_type(weight, [&](auto type) {
    using T = decltype(type);
    using F = typename Narrow<T>::type;
    Cells<T> cells(x, index, n);
    Gate<F> gate(excitation, excitation_bias, squeeze_weight, squeeze_bias);
    with_width(half, [&](auto width) {
      constexpr int V = decltype(width)::value;
      split(b, [&](int64_t thread, int64_t begin, int64_t end) {
        int64_t group = std::max<int64_t>(1, ROWS / n);
        Tensor normal = take({std::min(group, end - begin) * n, channels}, weight.options());
        Tensor products = take({normal.size(0), 2 * half}, weight.options());
        Tensor gradient = take(normal.sizes(), normal.options()), partial = at::empty_like(weight);
        Tensor own_weight = dweight[thread];
        GateGradients sums = {data<float>(de) + thread * LANES * half,
                              data<float>(de_bias) + thread * LANES,
                              data<float>(ds) + thread * LANES * half,
                              data<float>(ds_bias) + thread * half};
        for (int64_t at = begin; at < end; at += group) {
          int64_t count = std::min(group, end - at);
          Tensor in = normal.narrow(0, 0, count * n), out = products.narrow(0, 0, count * n);
          Tensor din = gradient.narrow(0, 0, count * n);
          for (int64_t k = 0; k < count; k++) {
            unfinish<T, V, F>(data<T>(eta_gradient) + (at + k) * n * half,
                           data<T>(y) + (at + k) * n * half,
                           data<float>(inverse) + (at + k) * n, graph, gate, sums,
                           data<float>(dbias) + thread * half,
                           data<float>(ddegree) + thread * half,
                           data<T>(out) + k * n * 2 * half);
            normalize(cells, at + k, data<float>(mean) + (at + k) * channels,
                      data<float>(scale) + (at + k) * channels, data<T>(in) + k * n * channels);
          }
          at::mm_out(din, out, weight);
          if (weight.scalar_type() == at::kFloat) {
            own_weight.addmm_(out.t(), in);
          } else {
            at::mm_out(partial, out.t(), in);
            own_weight.add_(partial);
          }
          for (int64_t k = 0; k < count; k++) {
            int64_t configuration = at + k;
            const T* d = data<T>(din) + k * n * channels;
            const T* normals = data<T>(in) + k * n * channels;
            const float* scales = data<float>(scale) + configuration * channels;
            auto through = [&](int64_t i, int64_t c) {
              if (pooled) return load(data<float>(residual) + configuration * channels + c);
              return load(data<T>(residual) + (configuration * n + i) * channels + c);
            };
            if (index) {
              float* rows = data<float>(dx) + thread * x.size(0) * channels;
              const int32_t* places = cells.index + configuration * n;
              unnormalize(d, normals, scales, n, channels, [&](int64_t i, int64_t c, vec g) {
                float* row = rows + places[i] * channels + c;
                store(row, load(row) + g + through(i, c));
              });
            } else {
              T* cell = data<T>(dx) + configuration * n * channels;
              unnormalize(d, normals, scales, n, channels, [&](int64_t i, int64_t c, vec g) {
                store(cell + i * channels + c, g + through(i, c));
              });
            }
          }
        }
      });
    });
    return 0;
  });
  int64_t squeezed = excitation.size(0);
  return {index ? total(dx) : dx,
          total(dweight),
          total(dbias),
          total(ddegree),
          total(de).narrow(0, 0, squeezed),
          total(de_bias).narrow(0, 0, squeezed),
          total(ds).narrow(0, 0, squeezed).t(),
          total(ds_bias)};
}

}  // namespace
}  // namespace tgraph

TORCH_LIBRARY_FRAGMENT(tgraph, m) {
  m.def("first_half", &tgraph::first_half);
  m.def("local_forward", &tgraph::local_forward);
  m.def("local_backward", &tgraph::local_backward);
}
