#include "ops/kernels/copy/reshape_to.h"

#include "ops/kit/options.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops {

ValueId ReshapeTo(OpContext& c, ValueId x, const Shape& shape) {
  proto::ShapeOf options;
  SetShapeOption(shape, &options);
  return c.Op("reshape_to", {x}, proto::MakeOptions(options));
}

}  // namespace snug::core::ops
