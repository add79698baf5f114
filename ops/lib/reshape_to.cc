#include "ops/lib/reshape_to.h"

#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::ops {

ValueId ReshapeTo(OpContext& c, ValueId x, const Shape& shape) {
  proto::ShapeOf options;
  for (const int64_t dim : shape.dims()) options.add_dim(dim);
  return c.Op("reshape_to", {x}, proto::MakeOptions(options));
}

}  // namespace snug::ops
