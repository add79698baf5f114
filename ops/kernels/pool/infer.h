// Shape inference and gradients of the pooling ops, for any kind of windows.
#pragma once

#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernels/pool/geometry.h"

namespace snug::core::ops {

// Sets y, from x, which is input 0. `with_index` also sets the index of each maximum, output 1.
void SetPooled(InferContext& c, const PoolGeometry& g, bool with_index);

// Sets dx, of shape `x`, from dy, which is the last input. If there is an input before it, that is the index of each
// maximum.
absl::Status SetUnpooled(InferContext& c, const PoolGeometry& g, const Shape& x);

// Returns the options of a gradient op, which contain the shape of x: a proto::PoolGrad, or a proto::ShapeOf where
// there is no more to say.
Options WithPoolAndInputShape(const GradContext& g);
Options InputShape(const GradContext& g);

}  // namespace snug::core::ops
