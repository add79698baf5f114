// Gradients of what all rounds of a loop read that are no sums over rounds, but one product of all rounds' x and dy
// behind the loop, or one sum of all rows of dy.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/compile/control/control_nodes.h"
#include "engine/graph/graph.h"

namespace snug::proto {
class NormalLoop;
}

namespace snug::core {

// The gradient of a dense layer's weights.
struct SummedProduct {
  int input = 0;
  ValueId x;      // of the graph around: of all rounds
  Shape x_shape;  // with the rounds
  ValueId first;  // if valid, x is that of the round before, and this is the first one
  bool reverse = false;
  std::string name;
};

// As the bias of a layer whose dy is collected. The values are of the body beside its gradient.
struct SummedRows {
  int input = 0;
  ValueId gradient, dy;
};

struct SummedGradients {
  std::unordered_map<ValueId, int> products;  // gradients of weights: the input
  std::vector<SummedRows> rows;

  bool IsSumOfRows(ValueId gradient) const;
};

// `both` is the body and its gradient, `gradients` are by inputs of the body.
SummedGradients FindSummed(const Graph& body, const Graph& both, const proto::NormalLoop& options,
                           const std::unordered_map<ValueId, ValueId>& gradients);

// `dys` are of all rounds.
absl::StatusOr<ValueId> AddSummedProduct(ControlNodes& nodes, const SummedProduct& product, ValueId dys,
                                         int64_t rounds);

}  // namespace snug::core
