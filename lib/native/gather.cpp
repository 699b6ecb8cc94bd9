// Rows of a graph beside the means of their neighbours, for several networks at once, and back.
//
// Of each row, each network's own channels, the mean of its operands' and that of its users' come
// to lie side by side, as one matrix product takes them.

#include <torch/library.h>

#include "common.h"

namespace tgraph {
namespace {

constexpr int64_t PARTS = 3;

struct Side {
  const int64_t *sources, *pointers;
};

// Calls work(row, source, part, factor) for each row that another one hears, in order.
template <class Work>
void each_heard(int64_t rows, const int64_t* own, const Side (&sides)[2], const Work& work) {
  for (int64_t row = 0; row < rows; row++) {
    work(row, own[row], 0, 1.0f);
    for (int part = 0; part < 2; part++) {
      int64_t begin = sides[part].pointers[row], end = sides[part].pointers[row + 1];
      for (int64_t at = begin; at < end; at++)
        work(row, sides[part].sources[at], part + 1, 1.0f / (end - begin));
    }
  }
}

// (members, rows, 3 channels) from states (rows before, members, channels), float32.
Tensor heard_forward(const Tensor& states, const Tensor& own, const Tensor& operands,
                     const Tensor& operand_pointers, const Tensor& users,
                     const Tensor& user_pointers) {
  int64_t members = states.size(1), channels = states.size(2), rows = own.size(0);
  Tensor out = at::zeros({members, rows, PARTS * channels}, states.options());
  const float* from = data<float>(states);
  float* to = data<float>(out);
  Side sides[2] = {{data<int64_t>(operands), data<int64_t>(operand_pointers)},
                   {data<int64_t>(users), data<int64_t>(user_pointers)}};
  each_heard(rows, data<int64_t>(own), sides,
             [&](int64_t row, int64_t source, int part, float factor) {
               for (int64_t m = 0; m < members; m++) {
                 const float* state = from + (source * members + m) * channels;
                 float* sum = to + ((m * rows + row) * PARTS + part) * channels;
                 for (int64_t c = 0; c < channels; c++) sum[c] += factor * state[c];
               }
             });
  return out;
}

// The gradient by the states, from that by what was heard.
Tensor heard_backward(const Tensor& gradient, int64_t before, const Tensor& own,
                      const Tensor& operands, const Tensor& operand_pointers, const Tensor& users,
                      const Tensor& user_pointers) {
  int64_t members = gradient.size(0), rows = gradient.size(1);
  int64_t channels = gradient.size(2) / PARTS;
  Tensor out = at::zeros({before, members, channels}, gradient.options());
  const float* from = data<float>(gradient);
  float* to = data<float>(out);
  Side sides[2] = {{data<int64_t>(operands), data<int64_t>(operand_pointers)},
                   {data<int64_t>(users), data<int64_t>(user_pointers)}};
  each_heard(rows, data<int64_t>(own), sides,
             [&](int64_t row, int64_t source, int part, float factor) {
               for (int64_t m = 0; m < members; m++) {
                 const float* slope = from + ((m * rows + row) * PARTS + part) * channels;
                 float* sum = to + (source * members + m) * channels;
                 for (int64_t c = 0; c < channels; c++) sum[c] += factor * slope[c];
               }
             });
  return out;
}

}  // namespace
}  // namespace tgraph

TORCH_LIBRARY_FRAGMENT(tgraph, m) {
  m.def("heard_forward", &tgraph::heard_forward);
  m.def("heard_backward", &tgraph::heard_backward);
}
