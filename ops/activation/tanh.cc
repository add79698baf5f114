// tanh: y = tanh(x); its gradient reads y.
#include "ops/activation.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::tanh {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromOutput(g, "tanh_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-4, 4);
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({3}).Values({-1000, 0, 1000}).NoGradient().Expect(0, {-1, 0, 1});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({0, 0.5, 1}).Input({3}).Values({1, 2, 3}).Expect(0, {1, 1.5, 0});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(tanh) {
  return {Elementwise<functions::Tanh>({.name = "tanh",
                                        .doc = "y = tanh(x)",
                                        .inputs = {{"x"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .activation = Activation::kTanh,
                                        .samples = Samples}),
          Elementwise<functions::TanhGrad>({.name = "tanh_grad",
                                            .doc = "dx = dy (1 - y^2)",
                                            .inputs = {{"y"}, {"dy"}},
                                            .outputs = {{"dx"}},
                                            .activation_grad = Activation::kTanh,
                                            .samples = GradSamples})};
}

}  // namespace snug::core::ops::tanh
