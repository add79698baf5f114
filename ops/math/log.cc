// log: y = log(x), the natural logarithm.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::log {
namespace {

absl::Status Gradient(GradContext& g) {  // dx = dy / x
  g.SetInputGrad(0, g.Op("div", {g.output_grad(0), g.input(0)}));
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(0.25, 4);
  s.Case("image").Input({2, 3, 4, 5}).Range(0.25, 4);
  s.Case("known").Input({1}).Values({1}).NoGradient().Expect(0, {0});
}

}  // namespace

SNUG_OPS(log) {
  return {Elementwise<functions::Logarithm>({.name = "log",
                                             .doc = "y = log(x)",
                                             .inputs = {{"x"}},
                                             .outputs = {{"y"}},
                                             .gradient = Gradient,
                                             .samples = Samples})};
}

}  // namespace snug::core::ops::log
