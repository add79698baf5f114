// sqrt: y = the square root of x; its gradient reads y.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::sqrt {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromOutput(g, "sqrt_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(0.25, 4);
  s.Case("image").Input({2, 3, 4, 5}).Range(0.25, 4);
  s.Case("known").Input({3}).Values({0, 1, 4}).NoGradient().Expect(0, {0, 1, 2});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({2}).Values({1, 2}).Input({2}).Values({3, 4}).Expect(0, {1.5, 1});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(sqrt) {
  return {Elementwise<functions::Sqrt>({.name = "sqrt",
                                        .doc = "y = sqrt(x)",
                                        .inputs = {{"x"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples}),
          Elementwise<functions::SqrtGrad>({.name = "sqrt_grad",
                                            .doc = "dx = dy / (2 y)",
                                            .inputs = {{"y"}, {"dy"}},
                                            .outputs = {{"dx"}},
                                            .samples = GradSamples})};
}

}  // namespace snug::core::ops::sqrt
