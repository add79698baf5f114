// reduce_to_shape: x summed over the axes along which `dim` was broadcast to it: the gradient of broadcasting.
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/cuda.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/options.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::reduce_to_shape {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  const proto::ShapeOf& options = c.options<proto::ShapeOf>();
  SNUG_ASSIGN_OR_RETURN(const Shape shape, ShapeOption(options, /*allow_empty=*/true));
  const absl::StatusOr<Shape> broadcast = BroadcastShapes(shape, c.shape(0));
  if (!broadcast.ok() || *broadcast != c.shape(0)) {
    return c.InputError(0, "expected a shape that " + shape.ToString() + " broadcasts to");
  }
  c.SetOutput(0, c.input(0).dtype, shape, shape.rank() == c.shape(0).rank() ? c.input(0).layout : Layout::Plain());
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  proto::ShapeOf shape;
  SetShapeOption(g.input_type(0).shape, &shape);
  g.SetInputGrad(0, g.Op("broadcast_to", {g.output_grad(0)}, proto::MakeOptions(shape)));
  return g.status();
}

absl::Status PrepareCuda(PrepareContext& c) {
  PrepareReduceCuda(c, PlanSumToShape(c.types().input(0), c.types().output(0)));
  return absl::OkStatus();
}

absl::Status Kernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Reduce<SumOp>(k.threads(), PlanSumToShape(k.input_type(0), k.output_type(0)), k.input<T>(0), k.output<T>(0));
    return absl::OkStatus();
  });
}

FusedReduction Fused(const NodeTypes& types) { return {.plan = PlanSumToShape(types.input(0), types.output(0))}; }

void Samples(SampleBuilder& s) {
  s.Case("to_scalar").Input({5, 7}).With(ParseOptions<proto::ShapeOf>(""));
  s.Case("same").Input({2, 3}).With(ParseOptions<proto::ShapeOf>("dim: [2, 3]"));
  s.Case("rows").Input({5, 70}).With(ParseOptions<proto::ShapeOf>("dim: [5, 1]"));
  s.Case("columns").Input({70, 19}).With(ParseOptions<proto::ShapeOf>("dim: 19"));
  s.Case("channels").Input({2, 3, 4, 5}).With(ParseOptions<proto::ShapeOf>("dim: [3, 1, 1]"));
  s.Case("channels_full_rank").Input({2, 3, 4, 5}).With(ParseOptions<proto::ShapeOf>("dim: [1, 3, 1, 1]"));
  s.Case("per_sample_and_channel").Input({2, 3, 4, 5}).With(ParseOptions<proto::ShapeOf>("dim: [2, 3, 1, 1]"));
  s.Case("batch").Input({4, 3, 2}).With(ParseOptions<proto::ShapeOf>("dim: [3, 2]"));
  s.Case("every_other").Input({3, 2, 5, 7}).With(ParseOptions<proto::ShapeOf>("dim: [3, 1, 5, 1]"));
  s.Case("in_parts").Input({300, 250}).NoGradient().With(ParseOptions<proto::ShapeOf>("dim: [1, 250]"));
  s.Case("known")
      .Input({2, 2})
      .Values({1, 2, 3, 4})
      .With(ParseOptions<proto::ShapeOf>("dim: [1, 2]"))
      .Expect(0, {4, 6});
  s.Case("not_a_broadcast").Input({4, 3}).With(ParseOptions<proto::ShapeOf>("dim: 4")).Fails("[4] broadcasts to");
}

}  // namespace

SNUG_OPS(reduce_to_shape) {
  return {{.name = "reduce_to_shape",
           .doc = "y = x summed over the axes along which `dim` broadcasts to its shape",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = FlopsPerElement<1>,
           .reduction = Fused,
           .kernels = {Plain(Kernel),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = PrepareCuda,
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          return ReduceCuda<SumOp>(k, PlanSumToShape(k.input_type(0), k.output_type(0)));
                        })}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::reduce_to_shape
