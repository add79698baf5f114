// gather: slices of x along an axis, chosen by integers. Its gradient adds them up where they came from.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/gather_rows.h"
#include "ops/kit/costs.h"
#include "ops/kit/options.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::gather {
namespace {

// Returns x's shape with `axis` replaced by the shape of the indices.
absl::StatusOr<Shape> Gathered(const InferContext& c, const Shape& x, int axis, int indices) {
  const Shape& chosen = c.shape(indices);
  if (x.rank() - 1 + chosen.rank() > kMaxRank) {
    return c.InputError(indices, absl::StrCat("the result would have ", x.rank() - 1 + chosen.rank(),
                                              " dimensions, and at most ", kMaxRank, " are allowed"));
  }
  Shape y;
  for (int i = 0; i < axis; ++i) y.Append(x[i]);
  for (const int64_t dim : chosen.dims()) y.Append(dim);
  for (int i = axis + 1; i < x.rank(); ++i) y.Append(x[i]);
  return y;
}

absl::Status Infer(InferContext& c) {
  const ValueType& x = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const int axis, AxisOption("axis", c.options<proto::Gather>().axis(), x.shape.rank()));
  SNUG_ASSIGN_OR_RETURN(const Shape y, Gathered(c, x.shape, axis, 1));
  c.SetOutput(0, x.dtype, y);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const auto& options = c.options<proto::GatherGrad>();
  SNUG_ASSIGN_OR_RETURN(const Shape x, ShapeOption(options));
  SNUG_ASSIGN_OR_RETURN(const int axis, AxisOption("axis", options.gather().axis(), x.rank()));
  SNUG_ASSIGN_OR_RETURN(const Shape y, Gathered(c, x, axis, 0));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, y));
  c.SetOutput(0, c.input(1).dtype, x);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {  // it keeps only the indices
  if (!g.wants(0)) return absl::OkStatus();
  proto::GatherGrad options;
  *options.mutable_gather() = g.options<proto::Gather>();
  SetShapeOption(g.input_type(0).shape, &options);
  g.SetInputGrad(0, g.Op("gather_grad", {g.input(1), g.output_grad(0)}, proto::MakeOptions(options)));
  return g.status();
}

absl::Status Forward(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(k.options<proto::Gather>().axis(), k.input_type(0).shape.rank()));
  return GatherRows(k, 0, 1, axis, "indices");
}

absl::StatusOr<int> GradAxis(const NodeTypes& types) {
  return NormalizeAxis(types.options.Get<proto::GatherGrad>().gather().axis(), types.output(0).shape.rank());
}

absl::Status PrepareGrad(PrepareContext& c) {
  SNUG_ASSIGN_OR_RETURN(const int axis, GradAxis(c.types()));
  c.SetWorkspaceBytes(ScatterAddWorkspaceBytes(c.types(), 0, axis));
  return absl::OkStatus();
}

absl::Status Backward(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const int axis, GradAxis(k.types()));
  return ScatterAddRows(k, 0, 1, axis, "indices");
}

absl::Status PrepareGradCuda(PrepareContext& c) {
  c.SetWorkspaceBytes(ScatterAddCudaWorkspaceBytes(c.types(), 0));
  return absl::OkStatus();
}

#if SNUG_HAS_CUDA
absl::Status ForwardCuda(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(k.options<proto::Gather>().axis(), k.input_type(0).shape.rank()));
  return GatherRowsCuda(k, 0, 1, axis);
}

absl::Status BackwardCuda(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const int axis, GradAxis(k.types()));
  return ScatterAddRowsCuda(k, 0, 1, axis);
}
#endif

// Indices are below the number of entries along the axis.
int64_t ForwardBound(const NodeTypes& types, int input) {
  if (input != 1) return 0;
  const Shape& x = types.input(0).shape;
  const absl::StatusOr<int> axis = NormalizeAxis(types.options.Get<proto::Gather>().axis(), x.rank());
  return axis.ok() ? x[*axis] : 0;
}

int64_t BackwardBound(const NodeTypes& types, int input) {
  if (input != 0) return 0;
  const absl::StatusOr<int> axis = GradAxis(types);
  return axis.ok() ? types.output(0).shape[*axis] : 0;
}

Cost ForwardCost(const NodeTypes& types) {  // it counts the rows that are read, not all of x
  return {.flops = 0, .bytes = static_cast<double>(2 * types.output(0).size_bytes() + types.input(1).size_bytes())};
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Gather>;
  s.Case("rows").Input({6, 19}).Int({4, 3}, 0, 6);
  s.Case("columns").Input({3, 7, 2}).Int({5}, 0, 7).With(options("axis: 1"));
  s.Case("last_axis").Input({2, 3, 7}).Int({2, 2}, 0, 7, DType::kInt64).With(options("axis: -1"));
  s.Case("one").Input({5, 3}).Int({}, 0, 5);
  s.Case("wide").Input({3, 300}).Int({4}, 0, 3);
  s.Case("integers").Int({6, 2}, 0, 100).Int({4}, 0, 6);
  s.Case("known")
      .Input({1, 3})
      .Values({5, 6, 7})
      .Int({2}, 0, 3)
      .Values({2, 0})
      .With(options("axis: 1"))
      .Expect(0, {7, 5});
  s.Case("too_large")
      .Input({2, 3})
      .Int({2, 2}, 0, 3)
      .Values({0, 1, 3, 0})
      .With(options("axis: 1"))
      .FailsAtRun("indices[1, 0]: expected an entry in [0, 3), found 3");
  s.Case("negative").Input({2, 3}).Int({1}, 0, 2).Values({-1}).FailsAtRun("indices[0]: expected");
  s.Case("bad_axis").Input({2, 3}).Int({1}, 0, 2).With(options("axis: 2")).Fails("axis 2: expected between -2 and 1");
  s.Case("batch_by_accident").Input({2, 3}).Int({1}, 0, 2).With(options("axis: -2")).Fails("axis -2 is the batch");
  s.Case("too_deep").Input({2, 1, 1, 1, 1}).Int({1, 1, 1, 1, 1}, 0, 2).Fails("the result would have 9 dimensions");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::GatherGrad>;
  s.Case("repeated").Int({4, 5}, 0, 6).Input({4, 5, 19}).With(options("dim: [6, 19]"));
  s.Case("columns").Int({9}, 0, 7).Input({3, 9, 2}).With(options("gather { axis: 1 } dim: [3, 7, 2]"));
  s.Case("known")
      .Int({3}, 0, 3)
      .Values({2, 0, 2})
      .Input({3, 1})
      .Values({1, 2, 4})
      .With(options("dim: [3, 1]"))
      .Expect(0, {2, 0, 5});
  s.Case("too_large").Int({1}, 0, 3).Values({3}).Input({1, 2}).With(options("dim: [3, 2]")).FailsAtRun("indices[0]");
  s.Case("wrong_gradient").Int({2}, 0, 3).Input({3, 2}).With(options("dim: [3, 2]")).Fails("expected shape [2, 2]");
}

}  // namespace

SNUG_OPS(gather) {
  return {
      {.name = "gather",
       .doc = "y = x with `axis` replaced by the shape of the indices, which choose along it",
       .inputs = {{"x", PortType::kAny}, {"indices", PortType::kInteger}},
       .outputs = {{"y", PortType::kAny}},
       .infer = Infer,
       .gradient = Gradient,
       .index_bound = ForwardBound,
       .cost = ForwardCost,
       .kernels = {Plain(Forward), OwnOnCuda(SNUG_IF_CUDA(ForwardCuda))},
       .samples = Samples},
      {.name = "gather_grad",
       .doc = "dx = the sum of dy over the positions where the indices chose it",
       .inputs = {{"indices", PortType::kInteger}, {"dy"}},
       .outputs = {{"dx"}},
       .infer = InferGrad,
       .index_bound = BackwardBound,
       .cost = FlopsPerElement<1, 1>,
       .kernels = {{.name = "plain", .prepare = PrepareGrad, .run = Backward},
                   {.device = kOnCuda, .name = "own", .prepare = PrepareGradCuda, .run = SNUG_IF_CUDA(BackwardCuda)}},
       .samples = GradSamples}};
}

}  // namespace snug::core::ops::gather
