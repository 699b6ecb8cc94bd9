// Rows of a graph beside the means of their neighbours, for several networks at once, and back.
//
// Of each row, each network's own channels, the mean of its operands' and that of its users' come
// to lie side by side, as one matrix product takes them.

#include <torch/library.h>

#include "common.h"

namespace tgraph {
namespace {

constexpr int64_t SOURCES = 3;  // the node itself, its operands, its users

// Who hears whom: where channels begin in what is heard, (members, rows, 3 channels), and where
// those begin in states, (rows before, members, channels), that come to it with a factor.
class Heard {
 public:
  Heard(int64_t members, int64_t channels, const Tensor& own, const Tensor& operands,
        const Tensor& operand_pointers, const Tensor& users, const Tensor& user_pointers)
      : rows(own.size(0)), members_(members), channels_(channels), own_(data<int64_t>(own)),
        sources_{data<int64_t>(operands), data<int64_t>(users)},
        pointers_{data<int64_t>(operand_pointers), data<int64_t>(user_pointers)} {}

  const int64_t rows;

  // Calls add(place in what is heard, place in states, factor) for each, in order.
  template <class Add>
  void each(const Add& add) const {
    for (int64_t row = 0; row < rows; row++) {
      of_members(row, own_[row], 0, 1.0f, add);
      for (int side = 0; side < 2; side++) {
        int64_t begin = pointers_[side][row], end = pointers_[side][row + 1];
        for (int64_t at = begin; at < end; at++)
          of_members(row, sources_[side][at], side + 1, 1.0f / (end - begin), add);
      }
    }
  }

 private:
  template <class Add>
  INLINE void of_members(int64_t row, int64_t source, int part, float factor,
                         const Add& add) const {
    for (int64_t m = 0; m < members_; m++)
      add(((m * rows + row) * SOURCES + part) * channels_, (source * members_ + m) * channels_,
          factor);
  }

  int64_t members_, channels_;
  const int64_t *own_, *sources_[2], *pointers_[2];
};

INLINE void add_to(float* sum, const float* x, float factor, int64_t channels) {
  for (int64_t c = 0; c < channels; c++) sum[c] += factor * x[c];
}

// (members, rows, 3 channels) from states (rows before, members, channels), float32.
Tensor heard_forward(const Tensor& states, const Tensor& own, const Tensor& operands,
                     const Tensor& operand_pointers, const Tensor& users,
                     const Tensor& user_pointers) {
  int64_t members = states.size(1), channels = states.size(2);
  Heard heard(members, channels, own, operands, operand_pointers, users, user_pointers);
  Tensor out = at::zeros({members, heard.rows, SOURCES * channels}, states.options());
  const float* from = data<float>(states);
  float* to = data<float>(out);
  heard.each([&](int64_t sum, int64_t state, float factor) {
    add_to(to + sum, from + state, factor, channels);
  });
  return out;
}

// The gradient by the states, from that by what was heard.
Tensor heard_backward(const Tensor& gradient, int64_t before, const Tensor& own,
                      const Tensor& operands, const Tensor& operand_pointers, const Tensor& users,
                      const Tensor& user_pointers) {
  int64_t members = gradient.size(0), channels = gradient.size(2) / SOURCES;
  Heard heard(members, channels, own, operands, operand_pointers, users, user_pointers);
  Tensor out = at::zeros({before, members, channels}, gradient.options());
  const float* from = data<float>(gradient);
  float* to = data<float>(out);
  heard.each([&](int64_t slope, int64_t state, float factor) {
    add_to(to + state, from + slope, factor, channels);
  });
  return out;
}

}  // namespace
}  // namespace tgraph

TORCH_LIBRARY_FRAGMENT(tgraph, m) {
  m.def("heard_forward", &tgraph::heard_forward);
  m.def("heard_backward", &tgraph::heard_backward);
}
