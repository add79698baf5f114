// flatten: the axes from `axis` to the last become one. It is a view.
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernels/copy/reshape_to.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::flatten {
namespace {

absl::Status Infer(InferContext& c) {
  const Shape& from = c.shape(0);
  absl::StatusOr<int> axis = NormalizeAxis(c.options<proto::Flatten>().axis(), from.rank());
  if (!axis.ok()) return c.OptionError("axis", axis.status().message());
  if (*axis == 0) return c.OptionError("axis", "axis 0 is the batch: expected a later one");
  Shape to;
  for (int i = 0; i < *axis; ++i) to.Append(from[i]);
  to.Append(from.Count(*axis, from.rank()));
  c.SetOutput(0, c.input(0).dtype, to);
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, ReshapeTo(g, g.output_grad(0), g.input_type(0).shape));
  return g.status();
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Flatten>;
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("from_axis").Input({2, 3, 4, 5}).With(options("axis: 2"));
  s.Case("negative_axis").Input({2, 3, 4, 5}).With(options("axis: -2"));
  s.Case("integers").Int({2, 3, 2}, 0, 9);
  s.Case("batch").Input({2, 3}).With(options("axis: 0")).Fails("axis 0 is the batch");
  s.Case("batch_from_the_end").Input({2, 3}).With(options("axis: -2")).Fails("axis 0 is the batch");
  s.Case("bad_axis").Input({2, 3}).With(options("axis: 2")).Fails("axis 2: expected between -2 and 1");
}

}  // namespace

SNUG_OPS(flatten) {
  return {{.name = "flatten",
           .doc = "y = x with the axes from `axis` on merged into one",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMustShare, 0, 0}},
           .traits = {.view = true},
           .samples = Samples}};
}

}  // namespace snug::core::ops::flatten
