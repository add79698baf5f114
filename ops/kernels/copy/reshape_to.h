// Views a value under another shape of as many elements. Gradients of ops that change shapes go back through it.
#pragma once

#include "ops/op_context.h"

namespace snug::core::ops {

ValueId ReshapeTo(OpContext& c, ValueId x, const Shape& shape);

}  // namespace snug::core::ops
