#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>

namespace tgraph {

namespace {
constexpr size_t SMALL = size_t{1} << 16;  // below this, the usual allocator is as good
constexpr size_t PAGE = size_t{1} << 21;   // a huge page
}

Blocks& Blocks::instance() {
  static Blocks* blocks = new Blocks;  // never destroyed: tensors may outlive static objects
  return *blocks;
}

at::Tensor Blocks::take(at::IntArrayRef sizes, const at::TensorOptions& options) {
  size_t bytes = options.dtype().itemsize();
  for (int64_t size : sizes) bytes *= size;
  if (bytes < SMALL) return at::empty(sizes, options);
  size_t unit = bytes < PAGE ? SMALL : PAGE, capacity = (bytes + unit - 1) / unit * unit;
  void* block = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = free_.lower_bound(capacity);
    if (found != free_.end() && found->first <= 2 * capacity) {
      capacity = found->first;
      block = found->second;
      idle_ -= capacity;
      free_.erase(found);
    }
    in_use_ += capacity;
    peak_ = std::max(peak_, in_use_);
  }
  if (!block) {
    block = std::aligned_alloc(unit, capacity);
    TORCH_CHECK(block, "out of memory: ", capacity, " bytes");
    if (unit == PAGE) madvise(block, capacity, MADV_HUGEPAGE);
  }
  auto back = [this, block, capacity](void*) { give(block, capacity); };
  return at::from_blob(block, sizes, back, options);
}

// Keeps no more idle memory than was ever in use at once.
void Blocks::give(void* block, size_t capacity) {
  std::lock_guard<std::mutex> lock(mutex_);
  in_use_ -= capacity;
  free_.emplace(capacity, block);
  idle_ += capacity;
  while (idle_ + in_use_ > peak_) {
    auto smallest = free_.begin();
    idle_ -= smallest->first;
    std::free(smallest->second);
    free_.erase(smallest);
  }
}

}  // namespace tgraph
