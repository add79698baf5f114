#include "ops/kit/elementwise.h"

#include <utility>

#include "ops/kit/options.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace internal {

OpDef CompleteElementwise(OpDef op, InferFn infer, ElementwiseForm form, KernelFn plain, KernelFn cuda) {
  if (op.infer == nullptr) op.infer = infer;
  if (op.kernels.empty()) {
    op.kernels = {Plain(std::move(plain)), OwnOnCuda(std::move(cuda))};
  }
  if (op.elementwise.expression == nullptr) op.elementwise = form;
  op.traits.layout = LayoutRule::kAgnostic;
  for (int i = 0; i < static_cast<int>(op.inputs.size()); ++i) {
    op.aliases.push_back({Alias::Kind::kMayShare, /*output=*/0, /*input=*/i});
  }
  return op;
}

}  // namespace internal

ValueId SumToShape(GradContext& g, ValueId value, const Shape& shape) {
  if (!g.status().ok() || g.type(value).shape == shape) return value;
  proto::ShapeOf target;
  SetShapeOption(shape, &target);
  return g.Op("reduce_to_shape", {value}, proto::MakeOptions(target));
}

}  // namespace snug::core
