// broadcast_to: x repeated until its shape is `dim`, by NumPy's rules.
#include "engine/base/status.h"
#include "ops/kit/elementwise.h"
#include "ops/kit/options.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::broadcast_to {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  const proto::ShapeOf& options = c.options<proto::ShapeOf>();
  SNUG_ASSIGN_OR_RETURN(const Shape shape, ShapeOption(options, /*allow_empty=*/true));
  const absl::StatusOr<Shape> broadcast = BroadcastShapes(c.shape(0), shape);
  if (!broadcast.ok() || *broadcast != shape) {
    return c.InputError(0, "expected a shape that broadcasts to " + shape.ToString());
  }
  c.SetOutput(0, c.input(0).dtype, shape, shape.rank() == c.shape(0).rank() ? c.input(0).layout : Layout::Plain());
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, SumToShape(g, g.output_grad(0), g.input_type(0).shape));
  return g.status();
}

Cost CostOfCopy(const NodeTypes&) { return {}; }

void Samples(SampleBuilder& s) {
  s.Case("scalar").Input({}).With(ParseOptions<proto::ShapeOf>("dim: [5, 7]"));
  s.Case("same").Input({2, 3}).With(ParseOptions<proto::ShapeOf>("dim: [2, 3]"));
  s.Case("rows").Input({5, 1}).With(ParseOptions<proto::ShapeOf>("dim: [5, 70]"));
  s.Case("channels").Input({3, 1, 1}).With(ParseOptions<proto::ShapeOf>("dim: [2, 3, 4, 5]"));
  s.Case("per_sample_and_channel").Input({2, 3, 1, 1}).With(ParseOptions<proto::ShapeOf>("dim: [2, 3, 4, 5]"));
  s.Case("known")
      .Input({2, 1})
      .Values({1, 2})
      .With(ParseOptions<proto::ShapeOf>("dim: [2, 2]"))
      .Expect(0, {1, 1, 2, 2});
  s.Case("too_small").Input({4, 3}).With(ParseOptions<proto::ShapeOf>("dim: [4, 1]")).Fails("broadcasts to [4, 1]");
}

}  // namespace

SNUG_OPS(broadcast_to) {
  return {
      {.name = "broadcast_to",
       .doc = "y = x repeated to the shape `dim`",
       .inputs = {{"x"}},
       .outputs = {{"y"}},
       .infer = Infer,
       .gradient = Gradient,
       .traits = {.layout = LayoutRule::kAgnostic},
       .cost = CostOfCopy,
       .elementwise = {FunctionExpression<functions::Same>},
       .kernels = {Plain(BroadcastKernel<functions::Same>), OwnOnCuda(SNUG_IF_CUDA(ElementwiseCuda<functions::Same>))},
       .samples = Samples}};
}

}  // namespace snug::core::ops::broadcast_to
