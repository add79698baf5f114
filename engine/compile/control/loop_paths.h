// Which values of a loop's body have gradients, and through which of its ports these flow.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace snug::proto {
class NormalLoop;
}

namespace snug::core {

struct LoopPaths {
  std::vector<bool> active;   // by input of the body: its gradient is wanted, or a later round wants it
  std::vector<bool> reached;  // by value of the body: it depends on inputs that are active
  std::vector<int> seeded_carries, seeded_collects;  // those that gradients flow into
};

// `output_grads` and `wanted` are those of DifferentiateLoop.
LoopPaths FindPaths(const Graph& body, const proto::NormalLoop& options, const std::vector<ValueId>& output_grads,
                    const std::vector<bool>& wanted);

}  // namespace snug::core
