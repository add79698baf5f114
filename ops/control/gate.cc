// gate: y = x, and gradients flow back only from rows that count. It stands before what is computed though it may not
// count: a round of a loop that has ended, a branch that is not taken. There a gradient of zero can still become NaN on
// its way back, as zero times infinity, and must not come out.
#include "engine/base/status.h"
#include "ops/control/row_mask.h"
#include "ops/grad_context.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::gate {
namespace {

absl::Status Infer(InferContext& c) {
  c.SetOutput(0, c.input(0));
  return CheckRowMask(c, 1, c.shape(0));
}

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("keep", {g.input(1), g.output_grad(0)}));
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("known").Input({2, 2}).Values({1, 2, 3, 4}).NoGradient().Bytes({2}).Values({0, 1}).Expect(0, {1, 2, 3, 4});
  s.Case("all").Input({3, 5}).Bytes({}).Values({1});
  s.Case("rows").Input({3, 5}).Bytes({3}).Values({1, 2, 3});
  s.Case("mask_of_other_rows").Input({3}).Bytes({2}).Fails("or one for each of the 3 rows of [3]");
}

}  // namespace

SNUG_OPS(gate) {
  return {{.name = "gate",
           .doc = "y = x; dx = dy in rows where the mask is not 0, else 0",
           .inputs = {{"x", PortType::kAny}, {.name = "mask", .type = PortType::kBytes, .plain_layout = true}},
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMustShare, 0, 0}},
           .traits = {.view = true, .layout = LayoutRule::kAgnostic},
           .samples = Samples}};
}

}  // namespace snug::core::ops::gate
