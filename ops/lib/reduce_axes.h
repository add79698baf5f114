// What the reductions of the model file (proto::Reduce) have in common.
#pragma once

#include <absl/status/statusor.h>

#include <array>

#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/lib/reduce.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"

namespace snug {

namespace proto {
class Reduce;
}

// Which axes go away. None named: all.
absl::StatusOr<std::array<bool, kMaxRank>> ReducedAxes(const proto::Reduce& options, int rank);

absl::StatusOr<ValueType> ReducedType(const ValueType& x, const proto::Reduce& options);

// The result of reducing input 0.
absl::Status InferReduce(InferContext& c);

ReducePlan PlanReduce(const ValueType& x, const ValueType& y, const proto::Reduce& options);

// Of a node that reduces input 0 to output 0.
ReducePlan PlanReduceNode(const NodeTypes& types);
absl::Status PrepareReduceNodeCuda(PrepareContext& c);

// How much one element of x makes of the mean y.
double ShareInMean(const ValueType& x, const ValueType& y);

// `grad`, of the reduced value, repeated along the reduced axes of input 0.
ValueId RepeatToInput(GradContext& g, ValueId grad);

// One operation for each element of the input.
Cost CostOfReduce(const NodeTypes& types);

// Every kind of axes, good and bad.
void AddReduceSamples(SampleBuilder& s);

}  // namespace snug
