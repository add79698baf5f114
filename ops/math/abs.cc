// abs: y = |x|; its gradient at 0 is 0.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::abs {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "abs_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).AwayFrom({0});
  s.Case("image").Input({2, 3, 4, 5}).AwayFrom({0});
  s.Case("known").Input({3}).Values({0, 1, -2}).NoGradient().Expect(0, {0, 1, 2});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({1, -2, 0}).Input({3}).Values({3, 4, 5}).Expect(0, {3, -4, 0});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(abs) {
  return {Elementwise<functions::Abs>({.name = "abs",
                                       .doc = "y = |x|",
                                       .inputs = {{"x"}},
                                       .outputs = {{"y"}},
                                       .gradient = Gradient,
                                       .samples = Samples}),
          Elementwise<functions::AbsGrad>({.name = "abs_grad",
                                           .doc = "dx = dy sign(x)",
                                           .inputs = {{"x"}, {"dy"}},
                                           .outputs = {{"dx"}},
                                           .samples = GradSamples})};
}

}  // namespace snug::core::ops::abs
