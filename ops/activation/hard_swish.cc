// hard_swish: y = x min(max(x + 3, 0), 6) / 6; its gradient reads x.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::hard_swish {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "hard_swish_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-6, 6).AwayFrom({-3, 3});
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({5}).Values({-4, -3, 0, 3, 4}).NoGradient().Expect(0, {0, 0, 0, 3, 4});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({-4, 0, 4}).Input({3}).Values({1, 2, 3}).Expect(0, {0, 1, 3});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(hard_swish) {
  return {Elementwise<functions::HardSwish>({.name = "hard_swish",
                                             .doc = "y = x min(max(x + 3, 0), 6) / 6",
                                             .inputs = {{"x"}},
                                             .outputs = {{"y"}},
                                             .gradient = Gradient,
                                             .samples = Samples}),
          Elementwise<functions::HardSwishGrad>({.name = "hard_swish_grad",
                                                 .doc = "dx = 0 where x < -3, dy where x > 3, else dy (x / 3 + 1/2)",
                                                 .inputs = {{"x"}, {"dy"}},
                                                 .outputs = {{"dx"}},
                                                 .samples = GradSamples})};
}

}  // namespace snug::core::ops::hard_swish
