// floor: y = the largest whole number that is at most x; nothing flows back.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::floor {
namespace {

absl::Status Gradient(GradContext&) { return absl::OkStatus(); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-2, 2).AwayFrom({-1, 0, 1});
  s.Case("image").Input({2, 3, 4, 5}).AwayFrom({0});
  s.Case("known").Input({6}).Values({-1.5, -1, -0.25, 0.75, 2, 3e9}).NoGradient().Expect(0, {-2, -1, -1, 0, 2, 3e9});
}

}  // namespace

SNUG_OPS(floor) {
  return {Elementwise<functions::Floor>({.name = "floor",
                                         .doc = "y = the largest whole number up to x; its gradient is zero",
                                         .inputs = {{"x"}},
                                         .outputs = {{"y"}},
                                         .gradient = Gradient,
                                         .samples = Samples})};
}

}  // namespace snug::core::ops::floor
