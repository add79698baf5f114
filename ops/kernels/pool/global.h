// What the global pooling ops have in common: shapes, and how their gradients are made.
#pragma once

#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/node_types.h"

namespace snug::core::ops {

// Infers [batch, channels] from [batch, channels, spatial...]; with keep_dims the spatial dimensions become ones.
absl::StatusOr<ValueType> GlobalPoolOutput(const InferContext& c, bool keep_dims);

// Returns the shape of the gradient that a gradient op computes, from its options (proto::ShapeOf). Checks that input
// `dy` is of the same rank and has ones for the spatial dimensions.
absl::StatusOr<Shape> GlobalPoolInput(const InferContext& c, int dy);

// Returns dy with its spatial dimensions, which are all ones. It needs its full rank to have a layout.
ValueId WithSpatialOnes(GradContext& g, ValueId dy);

// The node of a global pool as a reduction.
ReducePlan PlanGlobalPool(const NodeTypes& types);

}  // namespace snug::core::ops
