// hard_sigmoid: y = min(max(x + 3, 0), 6) / 6; its gradient reads y.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::hard_sigmoid {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromOutput(g, "hard_sigmoid_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-6, 6).AwayFrom({-3, 3});
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({5}).Values({-4, -3, 0, 3, 4}).NoGradient().Expect(0, {0, 0, 0.5, 1, 1});
  s.Case("sixths").Input({2}).Values({-1, 2}).NoGradient().Expect(0, {1.0 / 3, 5.0 / 6});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({0, 0.5, 1}).Input({3}).Values({6, 6, 6}).Expect(0, {0, 1, 0});
  // A kernel in double must take a sixth in double; PyTorch takes the float32 nearest to it.
  s.Case("slope").Input({1}).Values({0.5}).Input({1}).Values({1}).Expect(0, {1.0 / 6});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(hard_sigmoid) {
  return {Elementwise<functions::HardSigmoid>({.name = "hard_sigmoid",
                                               .doc = "y = min(max(x + 3, 0), 6) / 6",
                                               .inputs = {{"x"}},
                                               .outputs = {{"y"}},
                                               .gradient = Gradient,
                                               .samples = Samples}),
          Elementwise<functions::HardSigmoidGrad>({.name = "hard_sigmoid_grad",
                                                   .doc = "dx = dy / 6 where 0 < y < 1, else 0",
                                                   .inputs = {{"y"}, {"dy"}},
                                                   .outputs = {{"dx"}},
                                                   .samples = GradSamples})};
}

}  // namespace snug::core::ops::hard_sigmoid
