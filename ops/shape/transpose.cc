// transpose: puts the axes in another order. The gradient is the transpose back.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/copy_box.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::transpose {
namespace {

// Output axis i is input axis axes[i]; Infer has checked them.
std::array<int, kMaxRank> Axes(const proto::Transpose& options) {
  std::array<int, kMaxRank> axes = {};
  const int rank = options.axes_size();
  for (int i = 0; i < rank; ++i) {
    const int64_t axis = options.axes(i);
    axes[static_cast<size_t>(i)] = static_cast<int>(axis < 0 ? axis + rank : axis);
  }
  return axes;
}

absl::Status Infer(InferContext& c) {
  const auto& options = c.options<proto::Transpose>();
  const Shape& from = c.shape(0);
  if (options.axes_size() != from.rank()) {
    return c.OptionError("axes", absl::StrCat("expected all ", from.rank(), " axes of ", from.ToString(),
                                              ", the batch too, found ", options.axes_size()));
  }
  std::array<bool, kMaxRank> used = {};
  Shape to;
  for (const int64_t written : options.axes()) {
    absl::StatusOr<int> axis = NormalizeAxis(written, from.rank());
    if (!axis.ok()) return c.OptionError("axes", axis.status().message());
    if (used[static_cast<size_t>(*axis)]) {
      return c.OptionError("axes", absl::StrCat("expected each axis once, found axis ", *axis, " again"));
    }
    used[static_cast<size_t>(*axis)] = true;
    to.Append(from[*axis]);
  }
  c.SetOutput(0, c.input(0).dtype, to);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  const auto& options = g.options<proto::Transpose>();
  const std::array<int, kMaxRank> axes = Axes(options);
  proto::Transpose back;
  for (int i = 0; i < options.axes_size(); ++i) back.add_axes(0);
  for (int i = 0; i < options.axes_size(); ++i) back.set_axes(axes[static_cast<size_t>(i)], i);
  g.SetInputGrad(0, g.Op("transpose", {g.output_grad(0)}, proto::MakeOptions(back), "transpose_grad"));
  return g.status();
}

template <class Boxes>
absl::Status TransposeKernel(const KernelContext& k) {
  const std::array<int, kMaxRank> axes = Axes(k.options<proto::Transpose>());
  const Strides from = k.input_type(0).strides();
  Strides permuted = {};
  for (size_t i = 0; i < static_cast<size_t>(k.output_type(0).shape.rank()); ++i) {
    permuted[i] = from[static_cast<size_t>(axes[i])];
  }
  SNUG_RETURN_IF_ERROR(Boxes::Copy(k, SizeOf(k.output_type(0).dtype), k.output_type(0).shape, k.input<void>(0),
                                   permuted, k.output<void>(0), k.output_type(0).strides()));
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Transpose>;
  s.Case("matrix").Input({2, 3}).Values({1, 2, 3, 4, 5, 6}).With(options("axes: [1, 0]")).Expect(0, {1, 4, 2, 5, 3, 6});
  s.Case("heads").Input({2, 5, 3, 7}).With(options("axes: [0, 2, 1, 3]"));
  s.Case("last_two").Input({2, 3, 17, 19}).With(options("axes: [0, 1, -1, -2]"));
  s.Case("cycle").Input({3, 4, 5}).With(options("axes: [1, 2, 0]"));
  s.Case("nothing").Input({3, 4, 1}).With(options("axes: [0, 1, 2]"));
  s.Case("integers").Int({3, 4}, 0, 9).With(options("axes: [1, 0]"));
  s.Case("few_axes").Input({2, 3, 4}).With(options("axes: [1, 0]")).Fails("expected all 3 axes of [2, 3, 4]");
  s.Case("bad_axis").Input({2, 3}).With(options("axes: [0, 2]")).Fails("axis 2: expected between -2 and 1");
  s.Case("twice").Input({2, 3}).With(options("axes: [1, -1]")).Fails("expected each axis once, found axis 1 again");
}

}  // namespace

SNUG_OPS(transpose) {
  return {{.name = "transpose",
           .doc = "y = x with its axes reordered: y's axis i is x's axis axes[i]",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .kernels = {Plain(TransposeKernel<BoxesOnCpu>), OwnOnCuda(SNUG_IF_CUDA(TransposeKernel<BoxesOnCuda>))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::transpose
