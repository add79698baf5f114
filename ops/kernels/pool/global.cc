#include "ops/kernels/pool/global.h"

#include <array>

#include "engine/base/status.h"
#include "ops/kernels/copy/reshape_to.h"
#include "ops/kernels/pool/infer.h"
#include "ops/kit/options.h"
#include "proto/internal.pb.h"

namespace snug::core::ops {
namespace {

Shape SpatialOnes(const Shape& x) {
  Shape ones = x;
  for (int i = 2; i < x.rank(); ++i) ones[i] = 1;
  return ones;
}

}  // namespace

absl::StatusOr<ValueType> GlobalPoolOutput(const InferContext& c, bool keep_dims) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 5));
  const ValueType& x = c.input(0);
  if (keep_dims) return ValueType{x.dtype, SpatialOnes(x.shape), x.layout};
  return ValueType{x.dtype, {x.shape[0], x.shape[1]}, Layout::Plain()};
}

absl::StatusOr<Shape> GlobalPoolInput(const InferContext& c, int dy) {
  SNUG_ASSIGN_OR_RETURN(const Shape x, ShapeOption(c.options<proto::ShapeOf>()));
  SNUG_RETURN_IF_ERROR(c.CheckShape(dy, SpatialOnes(x)));
  return x;
}

ValueId WithSpatialOnes(GradContext& g, ValueId dy) {
  const Shape ones = SpatialOnes(g.input_type(0).shape);
  return g.type(dy).shape == ones ? dy : ReshapeTo(g, dy, ones);
}

ReducePlan PlanGlobalPool(const NodeTypes& types) {
  const ValueType& x = types.input(0);
  std::array<bool, kMaxRank> reduced = {};
  for (int axis = 2; axis < x.shape.rank(); ++axis) reduced[static_cast<size_t>(axis)] = true;
  return ReducePlan(x, reduced, types.output(0).strides());
}

}  // namespace snug::core::ops
