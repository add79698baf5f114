// sign: y = 1 where x > 0, -1 where x < 0, else 0, also where x is NaN, as in PyTorch; nothing flows back.
#include <cmath>

#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::sign {
namespace {

absl::Status Gradient(GradContext&) { return absl::OkStatus(); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).AwayFrom({0});
  s.Case("image").Input({2, 3, 4, 5}).AwayFrom({0});
  s.Case("known").Input({5}).Values({-1.5, 0, 0.25, 3, NAN}).NoGradient().Expect(0, {-1, 0, 1, 1, 0});
}

}  // namespace

SNUG_OPS(sign) {
  return {Elementwise<functions::Sign>({.name = "sign",
                                        .doc = "y = 1 where x > 0, -1 where x < 0, else 0; its gradient is zero",
                                        .inputs = {{"x"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples})};
}

}  // namespace snug::core::ops::sign
