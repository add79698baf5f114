#include "ops/lib/fused_reduction.h"

#include "ops/lib/reduce_axes.h"

namespace snug {

bool CanReduce(absl::string_view op) {
  return op == "reduce_sum" || op == "reduce_mean" || op == "reduce_max" || op == "reduce_to_shape";
}

FusedReduction ReductionOf(absl::string_view op, const NodeTypes& types) {
  if (op == "reduce_to_shape") return {.plan = PlanSumToShape(types.input(0), types.output(0))};
  return {.plan = PlanReduceNode(types),
          .factor = op == "reduce_mean" ? ShareInMean(types.input(0), types.output(0)) : 1,
          .largest = op == "reduce_max"};
}

}  // namespace snug
