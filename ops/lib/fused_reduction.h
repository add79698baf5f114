// The reductions that may end a fused chain.
#pragma once

#include <absl/strings/string_view.h>

#include "ops/lib/reduce.h"
#include "ops/node_types.h"

namespace snug {

bool CanReduce(absl::string_view op);

struct FusedReduction {
  ReducePlan plan;
  double factor = 1;     // of the result
  bool largest = false;  // instead of the sum
};

// Of a node of such an op.
FusedReduction ReductionOf(absl::string_view op, const NodeTypes& types);

}  // namespace snug
