// stop_gradient: y = x; nothing flows back.
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::stop_gradient {
namespace {

absl::Status Infer(InferContext& c) {
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext&) { return absl::OkStatus(); }

void Samples(SampleBuilder& s) {
  s.Case("known").Input({2, 2}).Values({1, 2, 3, 4}).NoGradient().Expect(0, {1, 2, 3, 4});
  s.Case("integers").Int({3}, 0, 5);
}

}  // namespace

SNUG_OPS(stop_gradient) {
  return {{.name = "stop_gradient",
           .doc = "y = x; its gradient is zero",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMustShare, 0, 0}},
           .traits = {.view = true, .layout = LayoutRule::kAgnostic},
           .samples = Samples}};
}

}  // namespace snug::core::ops::stop_gradient
