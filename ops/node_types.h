// The types around one node: shape inference, cost, prepare and kernels look at them.
#pragma once

#include <absl/types/span.h>

#include <vector>

#include "engine/base/options.h"
#include "engine/graph/value_type.h"

namespace snug::core {

struct NodeTypes {
  std::vector<ValueType> inputs;  // has_input tells which optional inputs are absent
  std::vector<bool> present;
  std::vector<ValueType> outputs;
  Options options;

  int num_inputs() const { return static_cast<int>(inputs.size()); }
  int num_outputs() const { return static_cast<int>(outputs.size()); }
  bool has_input(int i) const { return i < num_inputs() && present[static_cast<size_t>(i)]; }
  const ValueType& input(int i) const { return inputs[static_cast<size_t>(i)]; }
  const ValueType& output(int i) const { return outputs[static_cast<size_t>(i)]; }
};

}  // namespace snug::core
