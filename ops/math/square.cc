// square: y = x^2.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::square {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "square_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7});
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({3}).Values({0, 1, -2}).NoGradient().Expect(0, {0, 1, 4});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({2}).Values({1, -2}).Input({2}).Values({3, 4}).Expect(0, {6, -16});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(square) {
  return {Elementwise<functions::Square>({.name = "square",
                                          .doc = "y = x^2",
                                          .inputs = {{"x"}},
                                          .outputs = {{"y"}},
                                          .gradient = Gradient,
                                          .samples = Samples}),
          Elementwise<functions::SquareGrad>({.name = "square_grad",
                                              .doc = "dx = 2 x dy",
                                              .inputs = {{"x"}, {"dy"}},
                                              .outputs = {{"dx"}},
                                              .samples = GradSamples})};
}

}  // namespace snug::core::ops::square
