// relu: y = max(x, 0), and its gradient, which reads y (x may be overwritten in place).
#include "ops/activation.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::relu {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromOutput(g, "relu_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("vector").Input({5, 7}).AwayFrom({0});
  s.Case("image").Input({2, 3, 4, 5}).AwayFrom({0});
  s.Case("known").Input({4}).Values({-1, 0, 0.5, 2}).NoGradient().Expect(0, {0, 0, 0.5, 2});
  s.Case("integers").Int({4}, 0, 9).Fails("expected a floating-point value");
}

void GradSamples(SampleBuilder& s) {
  s.Case("vector").Input({5, 7}).Input({5, 7});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(relu) {
  return {Elementwise<functions::Relu>({.name = "relu",
                                        .doc = "y = max(x, 0)",
                                        .inputs = {{"x"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .activation = Activation::kRelu,
                                        .samples = Samples}),
          Elementwise<functions::ReluGrad>({.name = "relu_grad",
                                            .doc = "dx = dy where y > 0, else 0",
                                            .inputs = {{"y"}, {"dy"}},
                                            .outputs = {{"dx"}},
                                            .activation_grad = Activation::kRelu,
                                            .samples = GradSamples})};
}

}  // namespace snug::core::ops::relu
