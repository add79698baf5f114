// sigmoid: y = 1 / (1 + exp(-x)); its gradient reads y.
#include "ops/activation.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::sigmoid {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromOutput(g, "sigmoid_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-6, 6);
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({3}).Values({-1000, 0, 1000}).NoGradient().Expect(0, {0, 0.5, 1});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({0, 0.5, 1}).Input({3}).Values({1, 2, 3}).Expect(0, {0, 0.5, 0});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(sigmoid) {
  return {Elementwise<functions::Sigmoid>({.name = "sigmoid",
                                           .doc = "y = 1 / (1 + exp(-x))",
                                           .inputs = {{"x"}},
                                           .outputs = {{"y"}},
                                           .gradient = Gradient,
                                           .activation = Activation::kSigmoid,
                                           .samples = Samples}),
          Elementwise<functions::SigmoidGrad>({.name = "sigmoid_grad",
                                               .doc = "dx = dy y (1 - y)",
                                               .inputs = {{"y"}, {"dy"}},
                                               .outputs = {{"dx"}},
                                               .activation_grad = Activation::kSigmoid,
                                               .samples = GradSamples})};
}

}  // namespace snug::core::ops::sigmoid
