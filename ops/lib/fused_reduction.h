// What a reduction at the end of a fused chain does (OpDef::reduction).
#pragma once

#include "ops/lib/reduce.h"

namespace snug {

struct FusedReduction {
  ReducePlan plan;
  double factor = 1;     // of the result
  bool largest = false;  // instead of the sum
};

}  // namespace snug
