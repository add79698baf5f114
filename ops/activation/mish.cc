// mish: y = x tanh(log(1 + exp(x))), and its gradient, which reads x.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::mish {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "mish_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("vector").Input({5, 7}).Range(-6, 6);
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known")
      .Input({5})
      .Values({-1000, -1, 0, 1, 1000})
      .NoGradient()
      .Expect(0, {0, -0.303401461374108920, 0, 0.865098388267310293, 1000});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .Input({4})
      .Values({-1000, 0, 1, 1000})
      .Input({4})
      .Values({1, 2, 2, 4})
      .Expect(0, {0, 1.2, 2.09807244019958450, 4});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(mish) {
  return {
      Elementwise<functions::Mish>({.name = "mish",
                                    .doc = "y = x tanh(log(1 + exp(x)))",
                                    .inputs = {{"x"}},
                                    .outputs = {{"y"}},
                                    .gradient = Gradient,
                                    .samples = Samples}),
      Elementwise<functions::MishGrad>({.name = "mish_grad",
                                        .doc = "dx = dy (t + x (1 - t^2) / (1 + exp(-x))), t = tanh(log(1 + exp(x)))",
                                        .inputs = {{"x"}, {"dy"}},
                                        .outputs = {{"dx"}},
                                        .samples = GradSamples})};
}

}  // namespace snug::core::ops::mish
