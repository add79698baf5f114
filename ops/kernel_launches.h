// Says in how many launches CUDA's kernels of reductions and group norms work, and how they read, by types and options
// alone: for predictions (engine/run/observe/kernel_work.cc). The rules are those that the kernels themselves have.
#pragma once

#include <optional>

#include "ops/node_types.h"
#include "ops/op_def.h"

namespace snug::core {

struct CudaLaunches {
  int launches = 1;
  bool in_packs = true;   // 16 bytes are read at a time
  double read_again = 0;  // how often what is as large as the input is read once more
};

// Of a reduction, a chain that one ends, a pool of whole images, a group norm, or its gradient; nothing of other ops.
std::optional<CudaLaunches> LaunchesOfReduction(const OpDef& op, const NodeTypes& types);

// Of a sum of x to the shape of y.
CudaLaunches LaunchesOfSum(const ValueType& x, const ValueType& y);

}  // namespace snug::core
