// What PyTorch's autograd keeps of each op for its backward pass, and which of its outputs own bytes. A table, by the
// name of our op, of what tools/autograd/derivatives.yaml says of the op of PyTorch's that stands in its place.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>

namespace snug::core {

struct EagerOp {
  // Where the (first) output lies.
  enum class Output : uint8_t {
    kOwn,      // on bytes of its own
    kView,     // on those of the first input
    kInPlace,  // on those of an input where autograd allows it, which is more than most programs ask for
  };
  // What the gradient of an input is.
  enum class Gradient : uint8_t {
    kOwn,   // a tensor of its own
    kPass,  // the output's gradient or a view of it; where the shapes differ (a broadcast) a tensor of its own
  };
  // Sets of ports, a bit for each, and what stands for all.
  static constexpr uint32_t kNone = 0, kFirst = 1, kSecond = 2, kThird = 4, kFourth = 8, kAll = ~0U;

  absl::string_view name;
  uint32_t inputs_kept = kNone;
  uint32_t outputs_kept = kNone;
  // An input is kept only for the gradients of other inputs: the factors of a product.
  bool crosswise = false;
  Output output = Output::kOwn;
  Gradient gradient = Gradient::kOwn;
  uint32_t passed = kAll;  // for kPass: the inputs for which it holds
  // More that is made in the forward pass and kept, in bytes for each element of the first output, or of the first
  // input where `per_input` says so: masks, and values within what is one op here and several there.
  int64_t more_kept = 0;
  // More that the backward pass makes and drops within the op, alike.
  int64_t backward_scratch = 0;
  bool per_input = false;
};

// Returns null for an op that PyTorch's side of the comparison does not know.
const EagerOp* FindEagerOp(absl::string_view name);

}  // namespace snug::core
