// Shape inference and gradients of the pooling ops, for any kind of windows.
#pragma once

#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/lib/pool_geometry.h"

namespace snug::ops {

// From x, input 0, to y; `with_index`: and to the index of each maximum, output 1.
void SetPooled(InferContext& c, const PoolGeometry& g, bool with_index);

// From dy, the last input, to dx of x's shape. An input before it is the index of each maximum.
absl::Status SetUnpooled(InferContext& c, const PoolGeometry& g, const Shape& x);

// The options of a gradient op, with the shape of x: proto::PoolGrad, or proto::ShapeOf where there is no more to say.
Options WithPoolAndInputShape(const GradContext& g);
Options InputShape(const GradContext& g);

}  // namespace snug::ops
