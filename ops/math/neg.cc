// neg: y = -x.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::neg {
namespace {

absl::Status Gradient(GradContext& g) {
  g.SetInputGrad(0, g.Op("neg", {g.output_grad(0)}));
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7});
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({3}).Values({0, 1, -2}).NoGradient().Expect(0, {0, -1, 2});
}

}  // namespace

SNUG_OPS(neg) {
  return {Elementwise<functions::Neg>({.name = "neg",
                                       .doc = "y = -x",
                                       .inputs = {{"x"}},
                                       .outputs = {{"y"}},
                                       .gradient = Gradient,
                                       .samples = Samples})};
}

}  // namespace snug::core::ops::neg
