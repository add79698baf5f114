// softplus: y = log(1 + exp(x)), a smooth relu, and its gradient, which reads x.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::softplus {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "softplus_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("vector").Input({5, 7}).Range(-4, 4);
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known")
      .Input({4})
      .Values({-1000, 0, 1, 1000})
      .NoGradient()
      .Expect(0, {0, 0.693147180559945309, 1.313261687518222834, 1000});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({-1000, 0, 1000}).Input({3}).Values({1, 2, 3}).Expect(0, {0, 1, 3});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(softplus) {
  return {Elementwise<functions::Softplus>({.name = "softplus",
                                            .doc = "y = log(1 + exp(x))",
                                            .inputs = {{"x"}},
                                            .outputs = {{"y"}},
                                            .gradient = Gradient,
                                            .samples = Samples}),
          Elementwise<functions::SoftplusGrad>({.name = "softplus_grad",
                                                .doc = "dx = dy / (1 + exp(-x))",
                                                .inputs = {{"x"}, {"dy"}},
                                                .outputs = {{"dx"}},
                                                .samples = GradSamples})};
}

}  // namespace snug::core::ops::softplus
