// What the reductions of the model file (proto::Reduce) have in common.
#pragma once

#include <absl/status/statusor.h>

#include <array>

#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"

namespace snug::proto {
class Reduce;
}

namespace snug::core {

// Returns which axes go away. If the options name none, all do.
absl::StatusOr<std::array<bool, kMaxRank>> ReducedAxes(const proto::Reduce& options, int rank);

absl::StatusOr<ValueType> ReducedType(const ValueType& x, const proto::Reduce& options);

// Infers the result of reducing input 0.
absl::Status InferReduce(InferContext& c);

ReducePlan PlanReduce(const ValueType& x, const ValueType& y, const proto::Reduce& options);

// The plan of a node that reduces input 0 to output 0.
ReducePlan PlanReduceNode(const NodeTypes& types);
absl::Status PrepareReduceNodeCuda(PrepareContext& c);

// Returns by what an element of x is multiplied to count towards the mean y.
double ShareInMean(const ValueType& x, const ValueType& y);

// Repeats `grad`, the gradient of the reduced value, along the reduced axes of input 0.
ValueId RepeatToInput(GradContext& g, ValueId grad);

// Adds samples of every kind of axes, good and bad.
void AddReduceSamples(SampleBuilder& s);

}  // namespace snug::core
