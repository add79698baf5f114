// What global pooling ops have in common: shapes, and the way of their gradients.
#pragma once

#include "ops/grad_context.h"
#include "ops/infer_context.h"

namespace snug::ops {

// [batch, channels, spatial...] -> [batch, channels], or with ones for the spatial dimensions if they are kept.
absl::StatusOr<ValueType> GlobalPoolOutput(const InferContext& c, bool keep_dims);

// The shape whose gradient a gradient op computes, from its options (proto::ShapeOf); input `dy` of it has been
// checked: of the same rank, ones for the spatial dimensions.
absl::StatusOr<Shape> GlobalPoolInput(const InferContext& c, int dy);

// dy with its spatial dimensions, which are all ones: of full rank, it has a layout.
ValueId WithSpatialOnes(GradContext& g, ValueId dy);

}  // namespace snug::ops
