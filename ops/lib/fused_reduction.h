// Says what a reduction at the end of a fused chain does (OpDef::reduction).
#pragma once

#include "ops/lib/reduce.h"

namespace snug {

struct FusedReduction {
  ReducePlan plan;
  double factor = 1;     // the result is multiplied by it
  bool largest = false;  // the largest is taken instead of the sum
};

}  // namespace snug
