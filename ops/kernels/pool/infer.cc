#include "ops/kernels/pool/infer.h"

#include "engine/base/status.h"
#include "ops/kit/options.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops {

void SetPooled(InferContext& c, const PoolGeometry& g, bool with_index) {
  const ValueType& x = c.input(0);
  const Shape y = PooledShape(g, x.shape);
  c.SetOutput(0, x.dtype, y, x.layout);
  if (with_index) c.SetOutput(1, g.index_type(), y, x.layout);
}

absl::Status SetUnpooled(InferContext& c, const PoolGeometry& g, const Shape& x) {
  const int last = c.num_inputs() - 1;
  for (int i = 0; i <= last; ++i) SNUG_RETURN_IF_ERROR(c.CheckShape(i, PooledShape(g, x)));
  if (last == 1 && c.input(0).dtype != g.index_type()) return c.InputError(0, "is no index of these windows");
  c.SetOutput(0, c.input(last).dtype, x, c.input(last).layout);
  return absl::OkStatus();
}

Options WithPoolAndInputShape(const GradContext& g) {
  proto::PoolGrad options;
  *options.mutable_pool() = g.options<proto::Pool>();
  SetShapeOption(g.input_type(0).shape, &options);
  return proto::MakeOptions(options);
}

Options InputShape(const GradContext& g) {
  proto::ShapeOf options;
  SetShapeOption(g.input_type(0).shape, &options);
  return proto::MakeOptions(options);
}

}  // namespace snug::core::ops
