// relu6: y = min(max(x, 0), 6); its gradient reads y.
#include "ops/activation.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::relu6 {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromOutput(g, "relu6_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-4, 10).AwayFrom({0, 6});
  s.Case("image").Input({2, 3, 4, 5}).Range(-4, 10).AwayFrom({0, 6});
  s.Case("known").Input({5}).Values({-1, 0, 0.5, 6, 7}).NoGradient().Expect(0, {0, 0, 0.5, 6, 6});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({4}).Values({0, 0.5, 5, 6}).Input({4}).Values({1, 2, 3, 4}).Expect(0, {0, 2, 3, 0});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(relu6) {
  return {Elementwise<functions::Relu6>({.name = "relu6",
                                         .doc = "y = min(max(x, 0), 6)",
                                         .inputs = {{"x"}},
                                         .outputs = {{"y"}},
                                         .gradient = Gradient,
                                         .activation = Activation::kRelu6,
                                         .samples = Samples}),
          Elementwise<functions::Relu6Grad>({.name = "relu6_grad",
                                             .doc = "dx = dy where 0 < y < 6, else 0",
                                             .inputs = {{"y"}, {"dy"}},
                                             .outputs = {{"dx"}},
                                             .activation_grad = Activation::kRelu6,
                                             .samples = GradSamples})};
}

}  // namespace snug::core::ops::relu6
