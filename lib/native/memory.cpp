#include "memory.h"

#include <ATen/ops/from_blob.h>

#include <sys/mman.h>

#include <cstdlib>

namespace tgraph {

namespace {
constexpr size_t SMALL = size_t{1} << 16;  // below this, the usual allocator is as good
constexpr size_t PAGE = size_t{1} << 21;   // a huge page

// Blocks of several pages come from the system and go back to it. The usual allocator would keep
// some in its heap, with gaps between them that blocks of other sizes do not fit.
void* obtain(size_t capacity) {
  if (capacity < PAGE) return std::aligned_alloc(SMALL, capacity);
  void* taken = mmap(nullptr, capacity + PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (taken == MAP_FAILED) return nullptr;
  auto start = reinterpret_cast<size_t>(taken), block = (start + PAGE - 1) / PAGE * PAGE;
  if (block > start) munmap(taken, block - start);
  size_t end = start + capacity + PAGE;
  if (end > block + capacity) munmap(reinterpret_cast<void*>(block + capacity), end - block - capacity);
  madvise(reinterpret_cast<void*>(block), capacity, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(block);
}

void release(void* block, size_t capacity) {
  if (capacity < PAGE)
    std::free(block);
  else
    munmap(block, capacity);
}
}  // namespace

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
    if (found != free_.end() && found->first <= capacity + capacity / 4) {
      capacity = found->first;
      block = found->second;
      idle_ -= capacity;
      free_.erase(found);
    }
    in_use_ += capacity;
    peak_ = std::max(peak_, in_use_);
    shrink();
  }
  if (!block) {
    block = obtain(capacity);
    TORCH_CHECK(block, "out of memory: ", capacity, " bytes");
  }
  auto back = [this, block, capacity](void*) { give(block, capacity); };
  return at::from_blob(block, sizes, back, options);
}

void Blocks::give(void* block, size_t capacity) {
  std::lock_guard<std::mutex> lock(mutex_);
  in_use_ -= capacity;
  free_.emplace(capacity, block);
  idle_ += capacity;
  shrink();
}

// All blocks together are never more than were in use at once.
void Blocks::shrink() {
  while (idle_ + in_use_ > peak_) {
    auto smallest = free_.begin();
    idle_ -= smallest->first;
    release(smallest->second, smallest->first);
    free_.erase(smallest);
  }
}

}  // namespace tgraph
