// cos: y = cos(x), and its gradient, which reads x.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::cos {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "cos_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-8, 8);
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({3}).Values({0, 1, -1000}).NoGradient().Expect(0, {1, 0.540302305868139717, 0.562379076290703});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .Input({3})
      .Values({0, 1, -1000})
      .Input({3})
      .Values({1, 2, 1})
      .Expect(0, {0, -1.68294196961579301, 0.826879540532002560});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(cos) {
  return {Elementwise<functions::Cosine>({.name = "cos",
                                          .doc = "y = cos(x)",
                                          .inputs = {{"x"}},
                                          .outputs = {{"y"}},
                                          .gradient = Gradient,
                                          .samples = Samples}),
          Elementwise<functions::CosineGrad>({.name = "cos_grad",
                                              .doc = "dx = -dy sin(x)",
                                              .inputs = {{"x"}, {"dy"}},
                                              .outputs = {{"dx"}},
                                              .samples = GradSamples})};
}

}  // namespace snug::core::ops::cos
