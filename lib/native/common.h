// Code that the kernels share: access to a cell's input, buffers, and the split of work.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

#include "memory.h"
#include "vector.h"

namespace tgraph {

using at::Tensor;

constexpr float EPSILON = 1e-5f;         // under the root of instance normalization
constexpr float SMALLEST_NORM = 1e-12f;  // torch.nn.functional.normalize's own
constexpr int64_t ROWS = 1024;           // cells of a matrix product, so that they stay in cache

template <class T>
T* data(const Tensor& t) {
  return reinterpret_cast<T*>(t.data_ptr());
}
template <class T>
at::ScalarType scalar_type();
template <>
inline at::ScalarType scalar_type<float>() {
  return at::kFloat;
}
template <>
inline at::ScalarType scalar_type<bfloat16>() {
  return at::kBFloat16;
}

// Vectors of the cells (configuration, node): of a table by an index, or one for each cell.
template <class T>
struct Cells {
  const float* table = nullptr;  // (rows, channels)
  const int32_t* index = nullptr;  // (configurations, nodes) into the table
  const T* dense = nullptr;      // (configurations, nodes, channels)
  int64_t nodes = 0, channels = 0;

  Cells() = default;
  Cells(const T* x, int64_t node_count, int64_t width)
      : dense(x), nodes(node_count), channels(width) {}
  Cells(const Tensor& x, const std::optional<Tensor>& rows, int64_t node_count)
      : nodes(node_count), channels(x.size(-1)) {
    if (rows) {
      table = data<float>(x);
      index = data<int32_t>(*rows);
    } else {
      dense = data<T>(x);
    }
  }
  // One cell's vector, wherever it is.
  struct Row {
    const float* table;
    const T* dense;
    INLINE vec at(int64_t channel) const {
      return table ? load(table + channel) : load(dense + channel);
    }
  };
  INLINE Row row(int64_t configuration, int64_t node) const {
    int64_t cell = configuration * nodes + node;
    if (table) return {table + index[cell] * channels, nullptr};
    return {nullptr, dense + cell * channels};
  }
  INLINE vec at(int64_t configuration, int64_t node, int64_t channel) const {
    return row(configuration, node).at(channel);
  }
};

// Calls work(thread, begin, end) with one contiguous part of [0, count) a thread. The parts
// depend on the number of threads only, so that sums over them are the same in every run.
template <class Work>
void split(int64_t count, const Work& work) {
  int64_t threads = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), count));
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    at::AutoDispatchBelowADInplaceOrView guard;
    for (int64_t thread = first; thread < last; thread++)
      work(thread, thread * count / threads, (thread + 1) * count / threads);
  });
}

inline int64_t thread_count(int64_t count) {
  return std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), count));
}

// Adds the parts of all threads, in their order.
inline Tensor total(const Tensor& parts) { return parts.size(0) == 1 ? parts[0] : parts.sum(0); }

template <class Call>
auto with_type(const Tensor& t, const Call& call) {
  if (t.scalar_type() == at::kBFloat16) return call(bfloat16{});
  return call(float{});
}

}  // namespace tgraph
