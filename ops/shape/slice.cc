// slice: a part of x along some axes; and its gradient, dy among zeros.
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/byte_range.h"
#include "ops/kernels/copy/copy_box.h"
#include "ops/kit/options.h"
#include "ops/node_types.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "ops/slice_box.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::slice {
namespace {

absl::Status Infer(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const SliceBox box, ResolveSlice(c.options<proto::Slice>(), c.shape(0)));
  c.SetOutput(0, c.input(0).dtype, box.shape, c.input(0).layout);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const auto& options = c.options<proto::SliceGrad>();
  SNUG_ASSIGN_OR_RETURN(const Shape whole, ShapeOption(options));
  SNUG_ASSIGN_OR_RETURN(const SliceBox box, ResolveSlice(options.slice(), whole));
  SNUG_RETURN_IF_ERROR(c.CheckShape(0, box.shape));
  c.SetOutput(0, c.input(0).dtype, whole, c.input(0).layout);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  proto::SliceGrad options;
  *options.mutable_slice() = g.options<proto::Slice>();
  SetShapeOption(g.input_type(0).shape, &options);
  g.SetInputGrad(0, g.Op("slice_grad", {g.output_grad(0)}, proto::MakeOptions(options)));
  return g.status();
}

absl::Status GradientOfGrad(GradContext& g) {  // it takes the part back
  g.SetInputGrad(0, g.Op("slice", {g.output_grad(0)}, proto::MakeOptions(g.options<proto::SliceGrad>().slice())));
  return g.status();
}

std::optional<int64_t> OutputInInput(const NodeTypes& types, int) {
  const absl::StatusOr<SliceBox> box = ResolveSlice(types.options.Get<proto::Slice>(), types.input(0).shape);
  SNUG_CHECK_OK(box.status());
  return RangeWithin(types.input(0), box->begin, box->step, types.output(0));
}

// Returns the strides of the part within the whole.
Strides Stepped(const Strides& whole, const Shape& step) {
  Strides strides = whole;
  for (int i = 0; i < step.rank(); ++i) strides[static_cast<size_t>(i)] *= step[i];
  return strides;
}

template <class Boxes>
absl::Status SliceKernel(const KernelContext& k) {
  SNUG_ASSIGN_OR_RETURN(const SliceBox box, ResolveSlice(k.options<proto::Slice>(), k.input_type(0).shape));
  const Strides strides = k.input_type(0).strides();
  const int64_t bytes = SizeOf(k.input_type(0).dtype);
  SNUG_RETURN_IF_ERROR(Boxes::Copy(k, bytes, box.shape, k.input<char>(0) + OffsetOf(box.begin, strides) * bytes,
                                   Stepped(strides, box.step), k.output<void>(0), k.output_type(0).strides()));
  return absl::OkStatus();
}

template <class Boxes>
absl::Status SliceGradKernel(const KernelContext& k) {
  const Shape& whole = k.output_type(0).shape;
  SNUG_ASSIGN_OR_RETURN(const SliceBox box, ResolveSlice(k.options<proto::SliceGrad>().slice(), whole));
  const Strides strides = k.output_type(0).strides();
  const int64_t bytes = SizeOf(k.output_type(0).dtype);
  const uint64_t zero = 0;  // zero in every dtype
  Shape covered = box.shape;
  bool gaps = false;
  for (int i = 0; i < whole.rank(); ++i) {
    covered[i] = (box.shape[i] - 1) * box.step[i] + 1;
    gaps = gaps || covered[i] != box.shape[i];
  }
  SNUG_RETURN_IF_ERROR(Boxes::FillAround(k, bytes, whole, box.begin, covered, &zero, k.output<void>(0), strides));
  char* part = k.output<char>(0) + OffsetOf(box.begin, strides) * bytes;
  if (gaps) SNUG_RETURN_IF_ERROR(Boxes::Fill(k, bytes, covered, &zero, part, strides));
  SNUG_RETURN_IF_ERROR(
      Boxes::Copy(k, bytes, box.shape, k.input<void>(0), k.input_type(0).strides(), part, Stepped(strides, box.step)));
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Slice>;
  s.Case("known").Input({1, 5}).Values({1, 2, 3, 4, 5}).With(options("axis: 1 begin: 1 end: 4")).Expect(0, {2, 3, 4});
  s.Case("channels").Input({2, 21, 3, 5}).With(options("axis: 1 begin: 2 end: 19"));
  s.Case("two_axes").Input({2, 3, 7, 6}).With(options("axis: [2, 3] begin: [1, 2] end: [6, 6]"));
  s.Case("steps").Input({2, 3, 7, 6}).With(options("axis: [2, -1] begin: [1, 0] end: [7, 6] step: [3, 2]"));
  s.Case("from_the_end").Input({3, 9}).With(options("axis: -1 begin: -4 end: -1"));
  s.Case("open_end").Input({3, 9}).With(options("axis: 1 begin: 4"));
  s.Case("batch").Input({5, 4}).With(options("axis: 0 begin: 1 end: 3"));
  s.Case("everything").Input({3, 4}).With(options(""));
  s.Case("integers").Int({3, 9}, 0, 100).With(options("axis: 1 step: 4"));
  s.Case("bad_axis").Input({3, 4}).With(options("axis: 2")).Fails("axis 2: expected between -2 and 1");
  s.Case("batch_by_accident").Input({3, 4}).With(options("axis: -2")).Fails("axis -2 is the batch");
  s.Case("axis_twice").Input({3, 4}).With(options("axis: [1, -1]")).Fails("found axis 1 again");
  s.Case("far_begin").Input({3, 4}).With(options("axis: 1 begin: 4")).Fails("between -4 and 3 for axis 1, found 4");
  s.Case("far_end")
      .Input({3, 4})
      .With(options("axis: 1 begin: 1 end: 5"))
      .Fails("between -4 and 4 for axis 1, found 5");
  s.Case("empty").Input({3, 4}).With(options("axis: 1 begin: 2 end: -2")).Fails("nothing is left of axis 1");
  s.Case("step_zero").Input({3, 4}).With(options("axis: 1 step: 0")).Fails("\"step\": expected at least 1, found 0");
  s.Case("no_axis").Input({3, 4}).With(options("begin: 1")).Fails("\"begin\": expected at most one number for each");
}

void GradSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::SliceGrad>;
  s.Case("channels").Input({2, 17, 3, 5}).With(options("slice { axis: 1 begin: 2 end: 19 } dim: [2, 21, 3, 5]"));
  s.Case("steps")
      .Input({2, 3, 2, 3})
      .With(options("slice { axis: [2, 3] begin: [1, 1] end: [7, 6] step: [3, 2] } dim: [2, 3, 7, 6]"));
  s.Case("whole").Input({2, 3}).With(options("dim: [2, 3]"));
  s.Case("known")
      .Input({1, 2})
      .Values({3, 4})
      .With(options("slice { axis: 1 begin: 1 step: 2 } dim: [1, 5]"))
      .Expect(0, {0, 3, 0, 4, 0});
  s.Case("wrong_shape").Input({2, 2}).With(options("dim: [2, 3]")).Fails("expected shape [2, 3]");
}

}  // namespace

SNUG_OPS(slice) {
  return {{.name = "slice",
           .doc = "y = x from `begin` to `end` by `step` along each `axis`",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .output_in_input = OutputInInput,
           .kernels = {Plain(SliceKernel<BoxesOnCpu>), OwnOnCuda(SNUG_IF_CUDA(SliceKernel<BoxesOnCuda>))},
           .samples = Samples},
          {.name = "slice_grad",
           .doc = "dx = dy where the slice was taken, 0 elsewhere",
           .inputs = {{"dy", PortType::kAny}},
           .outputs = {{"dx", PortType::kAny}},
           .infer = InferGrad,
           .gradient = GradientOfGrad,
           .traits = {.layout = LayoutRule::kAgnostic},
           .kernels = {Plain(SliceGradKernel<BoxesOnCpu>), OwnOnCuda(SNUG_IF_CUDA(SliceGradKernel<BoxesOnCuda>))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::slice
