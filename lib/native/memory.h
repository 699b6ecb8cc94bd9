// Large blocks of memory that are kept for the next step.
//
// A step's intermediates are tens of megabytes each. Taken from the system and given back every
// time, their page faults cost as much as the passes over them; kept, and in huge pages, nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <mutex>

namespace tgraph {

class Blocks {
 public:
  // An uninitialized tensor. Its memory comes back here when the last reference to it goes.
  at::Tensor take(at::IntArrayRef sizes, const at::TensorOptions& options);

  static Blocks& instance();

 private:
  void give(void* block, size_t capacity);
  void shrink();

  std::mutex mutex_;
  std::multimap<size_t, void*> free_;  // by capacity
  size_t in_use_ = 0, peak_ = 0, idle_ = 0;
};

inline at::Tensor take(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return Blocks::instance().take(sizes, options);
}

}  // namespace tgraph
