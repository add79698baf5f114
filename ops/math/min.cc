// min: y = the smaller of a and b, with NumPy broadcasting; NaN wins. Where both are equal each gets half of the
// gradient, as in torch.minimum.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::min {
namespace {

absl::Status Gradient(GradContext& g) {  // an input gets dy where the other one is larger
  for (const int i : {0, 1}) {
    if (!g.wants(i)) continue;
    const ValueId grad = g.Op("max_grad", {g.input(1 - i), g.input(i), g.output_grad(0)});
    g.SetInputGrad(i, SumToShape(g, grad, g.input_type(i).shape));
  }
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("same_shape").Input({5, 7}).Range(-1, 0).Distinct().Input({5, 7}).Range(0.02, 0.5).Distinct();
  s.Case("scalar").Input({2, 3, 4}).AwayFrom({0}).Input({}).Values({0});
  s.Case("per_channel").Input({2, 3, 4, 5}).AwayFrom({0.25}).Input({3, 1, 1}).Values({0.25, 0.25, 0.25});
  s.Case("both_ways").Input({3, 1, 5}).AwayFrom({-0.5}).Input({2, 1}).Values({-0.5, -0.5});
  s.Case("known").Input({3}).Values({1, 2, 3}).NoGradient().Input({}).Values({2}).NoGradient().Expect(0, {1, 2, 2});
  s.Case("shape_mismatch").Input({4, 3}).Input({2, 3}).Fails("do not broadcast");
}

}  // namespace

SNUG_OPS(min) {
  return {Broadcasting<functions::Min>({.name = "min",
                                        .doc = "y = the smaller of a and b",
                                        .inputs = {{"a"}, {"b"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples})};
}

}  // namespace snug::core::ops::min
