// flip: x with the sequence along some axes turned round. The gradient is flipped back.
#include <absl/strings/str_cat.h>

#include <array>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/copy_box.h"
#include "ops/kit/options.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::flip {
namespace {

absl::Status Infer(InferContext& c) {
  std::array<bool, kMaxRank> used = {};
  for (const int64_t written : c.options<proto::Flip>().axes()) {
    SNUG_ASSIGN_OR_RETURN(const int axis, AxisOption("axes", written, c.shape(0).rank()));
    if (used[static_cast<size_t>(axis)]) {
      return c.OptionError("axes", absl::StrCat("expected each axis once, found axis ", axis, " again"));
    }
    used[static_cast<size_t>(axis)] = true;
  }
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("flip", {g.output_grad(0)}, g.options_handle(), "flip_grad"));
  return g.status();
}

Cost CostOfCopy(const NodeTypes&) { return {}; }

template <class Boxes>
absl::Status Kernel(const KernelContext& k) {  // reads backwards from the last entry of each flipped axis
  const ValueType& x = k.input_type(0);
  Strides strides = x.strides();
  int64_t last = 0;
  for (const int64_t written : k.options<proto::Flip>().axes()) {
    const int axis = static_cast<int>(written < 0 ? written + x.shape.rank() : written);
    int64_t& stride = strides[static_cast<size_t>(axis)];
    last += (x.shape[axis] - 1) * stride;
    stride = -stride;
  }
  const int64_t bytes = SizeOf(x.dtype);
  return Boxes::Copy(k, bytes, x.shape, k.input<char>(0) + last * bytes, strides, k.output<void>(0),
                     k.output_type(0).strides());
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Flip>;
  s.Case("known").Input({2, 3}).Values({1, 2, 3, 4, 5, 6}).With(options("axes: 1")).Expect(0, {3, 2, 1, 6, 5, 4});
  s.Case("known_both")
      .Input({2, 3})
      .Values({1, 2, 3, 4, 5, 6})
      .With(options("axes: [0, 1]"))
      .Expect(0, {6, 5, 4, 3, 2, 1});
  s.Case("image").Input({2, 3, 7, 9}).With(options("axes: -1"));
  s.Case("channels").Input({2, 19, 3, 5}).With(options("axes: 1"));
  s.Case("space").Input({2, 3, 4, 5}).With(options("axes: [2, 3]"));
  s.Case("outer_and_inner").Input({3, 4, 33}).With(options("axes: [0, -1]"));
  s.Case("batch").Input({5, 4}).With(options("axes: 0"));
  s.Case("one_element").Input({3, 1}).With(options("axes: 1"));
  s.Case("nothing").Input({3, 4}).With(options(""));
  s.Case("integers").Int({3, 9}, 0, 100).With(options("axes: 1"));
  s.Case("bytes").Bytes({3, 9}).With(options("axes: [0, 1]"));
  s.Case("bad_axis").Input({3, 4}).With(options("axes: 2")).Fails("axis 2: expected between -2 and 1");
  s.Case("batch_by_accident").Input({3, 4}).With(options("axes: -2")).Fails("axis -2 is the batch");
  s.Case("axis_twice")
      .Input({3, 4})
      .With(options("axes: [1, -1]"))
      .Fails("expected each axis once, found axis 1 again");
}

}  // namespace

SNUG_OPS(flip) {
  return {{.name = "flip",
           .doc = "y = x turned round along each of `axes`",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfCopy,
           .kernels = {Plain(Kernel<BoxesOnCpu>), OwnOnCuda(SNUG_IF_CUDA(Kernel<BoxesOnCuda>))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::flip
