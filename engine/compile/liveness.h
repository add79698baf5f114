// From an Order to the planning problem: which bytes a step needs, and when.
#pragma once

#include <vector>

#include "engine/compile/choose.h"
#include "engine/compile/order.h"
#include "memory/problem.h"

namespace snug {

// Variables lie in the state arena, which lasts; everything else in the step arena.
struct Liveness {
  memory::Problem state;  // one buffer for each Variable, by id
  memory::Problem step;
  // By value id: its buffer in the step problem, or -1 (a Variable's value, or never computed). Views have their
  // root's.
  std::vector<int> buffer_of_value;
  std::vector<int> workspace_of_node;         // by node id, or -1
  std::vector<VariableId> variable_of_value;  // by value id: the Variable on whose bytes it lies (also through views)
};

Liveness FindLiveness(const Graph& graph, const OpRegistry& registry, const Order& order,
                      const std::vector<KernelChoice>& kernels);

}  // namespace snug
