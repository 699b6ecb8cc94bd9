// Sums of binary decision trees: a row takes one path a tree, and what it reads stays in cache.

#include <torch/library.h>

#include "common.h"

namespace tgraph {
namespace {

constexpr int64_t TOGETHER = 8;  // rows that go down a tree side by side: no path waits for
                                 // another, and the rows fit in the first cache

// Trees are complete and of one depth: `feature` and `threshold` (trees, 2^depth - 1) level by
// level, `value` (trees, 2^depth).
struct Forest {
  const int32_t* feature;
  const float *threshold, *value;
  int64_t count, depth, inner;
};

// Adds up the leaves that `size` rows come to.
INLINE void descend(const Forest& forest, const float* rows, int64_t width, int64_t size,
                    float* out) {
  double total[TOGETHER] = {};
  for (int64_t tree = 0; tree < forest.count; tree++) {
    const int32_t* feature = forest.feature + tree * forest.inner;
    const float* threshold = forest.threshold + tree * forest.inner;
    const float* value = forest.value + tree * (forest.inner + 1);
    int32_t place[TOGETHER] = {};
    for (int64_t level = 0; level < forest.depth; level++)
      for (int64_t r = 0; r < size; r++) {
        int32_t at = place[r];
        place[r] = 2 * at + 1 + (rows[r * width + feature[at]] >= threshold[at]);
      }
    for (int64_t r = 0; r < size; r++) total[r] += value[place[r] - forest.inner];
  }
  for (int64_t r = 0; r < size; r++) out[r] = static_cast<float>(total[r]);
}

// (n,) sums of the leaves that rows (n, features) come to.
Tensor trees_forward(const Tensor& rows, const Tensor& feature, const Tensor& threshold,
                     const Tensor& value) {
  int64_t n = rows.size(0), width = rows.size(1), inner = feature.size(1), depth = 0;
  while ((int64_t{1} << depth) <= inner) depth++;
  Forest forest{data<int32_t>(feature), data<float>(threshold), data<float>(value),
                feature.size(0), depth, inner};
  Tensor sums = at::empty({n}, rows.options());
  const float* row = data<float>(rows);
  float* out = data<float>(sums);
  split((n + TOGETHER - 1) / TOGETHER, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t first = begin * TOGETHER; first < end * TOGETHER; first += TOGETHER) {
      if (n - first >= TOGETHER)  // a size that the compiler knows
        descend(forest, row + first * width, width, TOGETHER, out + first);
      else
        descend(forest, row + first * width, width, n - first, out + first);
    }
  });
  return sums;
}

}  // namespace
}  // namespace tgraph

TORCH_LIBRARY_FRAGMENT(tgraph, m) { m.def("trees_forward", &tgraph::trees_forward); }
