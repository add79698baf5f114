// exp: y = exp(x); its gradient reads y.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::exp {
namespace {

absl::Status Gradient(GradContext& g) {  // dx = dy y
  g.SetInputGrad(0, g.Op("mul", {g.output_grad(0), g.output(0)}));
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-4, 2);
  s.Case("image").Input({2, 3, 4, 5});
  s.Case("known").Input({2}).Values({0, -1000}).NoGradient().Expect(0, {1, 0});
  s.Case("integers").Int({4}, 0, 9).Fails("expected a floating-point value");
}

}  // namespace

SNUG_OPS(exp) {
  return {Elementwise<functions::Exponential>({.name = "exp",
                                               .doc = "y = exp(x)",
                                               .inputs = {{"x"}},
                                               .outputs = {{"y"}},
                                               .gradient = Gradient,
                                               .samples = Samples})};
}

}  // namespace snug::core::ops::exp
