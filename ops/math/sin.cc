// sin: y = sin(x), and its gradient, which reads x.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::sin {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "sin_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-8, 8);
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known")
      .Input({3})
      .Values({0, 1, -1000})
      .NoGradient()
      .Expect(0, {0, 0.841470984807896507, -0.826879540532002560});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .Input({3})
      .Values({0, 1, -1000})
      .Input({3})
      .Values({1, 2, 1})
      .Expect(0, {1, 1.08060461173627944, 0.562379076290703});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(sin) {
  return {Elementwise<functions::Sine>({.name = "sin",
                                        .doc = "y = sin(x)",
                                        .inputs = {{"x"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples}),
          Elementwise<functions::SineGrad>({.name = "sin_grad",
                                            .doc = "dx = dy cos(x)",
                                            .inputs = {{"x"}, {"dy"}},
                                            .outputs = {{"dx"}},
                                            .samples = GradSamples})};
}

}  // namespace snug::core::ops::sin
