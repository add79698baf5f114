// silu (swish): y = x sigmoid(x); its gradient reads x.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::silu {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "silu_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-6, 6);
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({3}).Values({-1000, 0, 1000}).NoGradient().Expect(0, {0, 0, 1000});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({-1000, 0, 1000}).Input({3}).Values({1, 2, 3}).Expect(0, {0, 1, 3});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(silu) {
  return {Elementwise<functions::Silu>({.name = "silu",
                                        .doc = "y = x / (1 + exp(-x))",
                                        .inputs = {{"x"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples}),
          Elementwise<functions::SiluGrad>({.name = "silu_grad",
                                            .doc = "dx = dy s (1 + x (1 - s)), s = sigmoid(x)",
                                            .inputs = {{"x"}, {"dy"}},
                                            .outputs = {{"dx"}},
                                            .samples = GradSamples})};
}

}  // namespace snug::core::ops::silu
