// Nodes of every update op whose slots are narrow, beside the same nodes with slots of float32 that hold the same
// numbers: for tests of the processor's kernels and of CUDA's.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "ops/graph_builder.h"
#include "ops/kernels/update/narrow_numbers.h"
#include "ops/registry.h"
#include "tests/testing/node_runner.h"
#include "tests/testing/sample_values.h"

namespace snug::core::test {

struct UpdateCase {
  std::string op;
  std::string options;
  unsigned squares;  // bit i: slot i holds squares
};
inline std::vector<UpdateCase> UpdateCases() {
  return {{"momentum_update", "momentum: 0.9 weight_decay: 0.1", 0b0},
          {"momentum_update", "momentum: 0.9 nesterov: true", 0b0},
          {"adam_update", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1", 0b10},
          {"adam_update", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1 decoupled_decay: true", 0b10},
          {"rmsprop_update", "beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1", 0b1},
          {"rmsprop_momentum_update", "beta2: 0.99 epsilon: 1e-8 momentum: 0.9", 0b01},
          {"adagrad_update", "epsilon: 1e-10 lr_mult: 2", 0b1},
          {"lion_update", "beta1: 0.9 beta2: 0.99 weight_decay: 0.1", 0b0},
          {"lamb_direction", "beta1: 0.9 beta2: 0.999 epsilon: 1e-6 weight_decay: 0.1", 0b10}};
}

// Returns proto::Update. The test that includes this defines it, as only such files know generated headers.
Options ParseUpdate(const std::string& text);

struct UpdateNode {
  const OpDef* op;
  NodeTypes types;
  std::vector<Tensor> inputs;
  std::vector<int> slots;  // indexes of inputs
  int gate = 0;

  absl::StatusOr<NodeRun> Run(KernelChoice choice, int threads) const {
    SNUG_ASSIGN_OR_RETURN(const NodeRunner runner, NodeRunner::Make(OpRegistry::Builtin(), *op, types, choice, threads,
                                                                    /*random_id=*/7));
    return runner.Run(inputs);
  }
};

inline std::vector<uint16_t> Halves(int64_t n) { return std::vector<uint16_t>(static_cast<size_t>(n), 0x8000); }

// The type and the content of a slot that is kept so.
inline Tensor SlotOf(DType kept, bool squares, const Shape& shape, const std::vector<double>& values) {
  if (kept != DType::kUint8) return Tensor::FromDoubles({kept, shape, {}}, values);
  const int64_t n = shape.num_elements();
  Tensor tensor({DType::kUint8, {CodedBytes(n)}, {}});
  const std::vector<float> numbers(values.begin(), values.end());
  StoreNumbers({squares ? KeptAs::kSquares8 : KeptAs::kSigned8, tensor.data(), n}, 0, n, numbers.data(),
               Halves(n).data());
  return tensor;
}

// The numbers that a slot holds.
inline std::vector<float> NumbersOf(const Tensor& slot, bool squares, int64_t n) {
  std::vector<float> numbers(static_cast<size_t>(n));
  const KeptAs as = slot.type.dtype == DType::kBFloat16 ? KeptAs::kBFloat16
                    : slot.type.dtype == DType::kUint8  ? (squares ? KeptAs::kSquares8 : KeptAs::kSigned8)
                                                        : KeptAs::kFloat32;
  LoadNumbers({as, const_cast<void*>(slot.data()), n}, 0, n, numbers.data());
  return numbers;
}

inline UpdateNode MakeUpdate(const UpdateCase& c, DType parameter, DType kept, const Shape& shape, int64_t step = 9) {
  UpdateNode node{.op = &OpRegistry::Builtin().Get(c.op)};
  node.types.options = ParseUpdate(c.options);
  const int64_t n = shape.num_elements();
  const auto random = [&](double low, double high) { return RandomValues(17 + node.inputs.size(), n, low, high); };
  bool counts = false;
  for (const Port& port : node.op->inputs) {
    Tensor tensor;
    bool present = true;
    if (port.name == "param") {
      tensor = Tensor::FromDoubles({parameter, shape, {}}, random(-1, 1));
    } else if (port.name == "grad") {
      tensor = Tensor::FromDoubles({DType::kFloat32, shape, {}}, random(-1, 1));
    } else if (port.name == "lr") {
      tensor = Tensor::FromDoubles({DType::kFloat32, {}, {}}, std::vector<double>{0.01});
    } else if (port.name == "gate") {
      node.gate = static_cast<int>(node.inputs.size());
      tensor = Tensor::FromDoubles({DType::kUint8, {}, {}}, std::vector<double>{1});
    } else if (port.name == "state" || port.name == "rounding") {
      present = port.name == "state" || kept != DType::kFloat32 || parameter != DType::kFloat32;
      counts = true;
      if (present) {
        tensor = Tensor::FromDoubles({DType::kInt64, {2}, {}}, std::vector<double>{3, static_cast<double>(step)});
      }
    } else {
      const bool squares = (c.squares >> node.slots.size() & 1) != 0;
      node.slots.push_back(static_cast<int>(node.inputs.size()));
      tensor = SlotOf(kept, squares, shape, squares ? random(0.01, 1) : random(-1, 1));
    }
    node.types.inputs.push_back(present ? tensor.type : ValueType());
    node.types.present.push_back(present);
    node.inputs.push_back(std::move(tensor));
  }
  SNUG_CHECK(counts);
  SNUG_CHECK_OK(InferTypes(*node.op, &node.types));
  return node;
}

// The same node with slots of float32 that hold the numbers that these do, and such a parameter.
inline UpdateNode Widened(const UpdateCase& c, const UpdateNode& node) {
  const Shape shape = node.types.inputs[0].shape;
  UpdateNode wide = MakeUpdate(c, DType::kFloat32, DType::kFloat32, shape);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.types.present[i] && wide.types.present[i]) wide.inputs[i] = node.inputs[i];
  }
  wide.inputs[0] = WithDType(node.inputs[0], DType::kFloat32);
  for (size_t s = 0; s < node.slots.size(); ++s) {
    const auto i = static_cast<size_t>(node.slots[s]);
    const std::vector<float> numbers = NumbersOf(node.inputs[i], (c.squares >> s & 1) != 0, shape.num_elements());
    wide.inputs[i] =
        Tensor::FromDoubles({DType::kFloat32, shape, {}}, std::vector<double>(numbers.begin(), numbers.end()));
  }
  return wide;
}

inline const Tensor& Mutated(const NodeRun& run, int input) {
  return std::find_if(run.mutated.begin(), run.mutated.end(), [&](const auto& one) { return one.first == input; })
      ->second;
}

}  // namespace snug::core::test
