// hard_swish: y = x min(max(x + 3, 0), 6) / 6; its gradient reads x.
#include "ops/lib/elementwise.h"
#include "ops/sample_builder.h"

namespace snug::ops {
namespace {

struct HardSwish {
  template <class A>
  A operator()(A x) const {
    const A shifted = x + A(3);
    return x * (shifted < A(0) ? A(0) : shifted > A(6) ? A(6) : shifted) / A(6);
  }
};

struct HardSwishGrad {
  template <class A>
  A operator()(A x, A dy) const {
    const A middle = dy * (x / A(3) + A(0.5));
    return x < A(-3) ? A(0) : x > A(3) ? dy : middle;
  }
};

absl::Status Gradient(GradContext& g) { return GradientFromInput(g, "hard_swish_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-6, 6).AwayFrom({-3, 3});
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({5}).Values({-4, -3, 0, 3, 4}).NoGradient().Expect(0, {0, 0, 0, 3, 4});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({-4, 0, 4}).Input({3}).Values({1, 2, 3}).Expect(0, {0, 1, 3});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(hard_swish) {
  return {Elementwise<HardSwish>({.name = "hard_swish",
                                  .doc = "y = x min(max(x + 3, 0), 6) / 6",
                                  .inputs = {{"x"}},
                                  .outputs = {{"y"}},
                                  .gradient = Gradient,
                                  .samples = Samples}),
          Elementwise<HardSwishGrad>({.name = "hard_swish_grad",
                                      .doc = "dx = 0 where x < -3, dy where x > 3, else dy (x / 3 + 1/2)",
                                      .inputs = {{"x"}, {"dy"}},
                                      .outputs = {{"dx"}},
                                      .samples = GradSamples})};
}

}  // namespace snug::ops
