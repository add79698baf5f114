// pow: y = a to the power b, with NumPy broadcasting. Special values are as in C's pow. The gradient of b reads y
// instead of b.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::pow {
namespace {

absl::Status Gradient(GradContext& g) {
  if (g.wants(0)) {
    const ValueId grad = g.Op("pow_base_grad", {g.input(0), g.input(1), g.output_grad(0)});
    g.SetInputGrad(0, SumToShape(g, grad, g.input_type(0).shape));
  }
  if (g.wants(1)) {
    const ValueId grad = g.Op("pow_exponent_grad", {g.input(0), g.output(0), g.output_grad(0)});
    g.SetInputGrad(1, SumToShape(g, grad, g.input_type(1).shape));
  }
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("same_shape").Input({5, 7}).Range(0.5, 2).Input({5, 7}).Range(-2, 2);
  s.Case("square").Input({2, 3, 4}).Input({}).Values({2}).NoGradient();
  s.Case("scalar_first").Input({}).Values({2}).Input({33});
  s.Case("per_channel").Input({2, 3, 4, 5}).Range(0.5, 2).Input({3, 1, 1}).Range(0.5, 2);
  s.Case("known")
      .Input({6})
      .Values({2, -2, 0, 0, 4, -2})
      .NoGradient()
      .Input({6})
      .Values({3, 3, 0, 2, 0.5, 2})
      .NoGradient()
      .Expect(0, {8, -8, 1, 0, 2, 4});
  s.Case("shape_mismatch").Input({4, 3}).Input({2, 3}).Fails("do not broadcast");
}

void BaseGradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({3, 0, 0}).Input({3}).Values({2, 0, 1}).Input({3}).Values({1, 1, 1}).Expect(
      0, {6, 0, 1});
  s.Case("shape_mismatch").Input({4}).Input({3}).Input({4}).Fails("do not broadcast");
}

void ExponentGradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({1, 0, 0}).Input({3}).Values({1, 0, 1}).Input({3}).Values({5, 5, 5}).Expect(
      0, {0, 0, 0});
  s.Case("per_channel").Input({3, 1, 1}).Range(0.5, 2).Input({2, 3, 4, 5}).Input({2, 3, 4, 5});
  s.Case("shape_mismatch").Input({4}).Input({3}).Input({4}).Fails("do not broadcast");
}

}  // namespace

SNUG_OPS(pow) {
  return {Broadcasting<functions::Power>({.name = "pow",
                                          .doc = "y = a^b",
                                          .inputs = {{"a"}, {"b"}},
                                          .outputs = {{"y"}},
                                          .gradient = Gradient,
                                          .samples = Samples}),
          Broadcasting<functions::PowerBaseGrad>({.name = "pow_base_grad",
                                                  .doc = "da = dy b a^(b - 1), before it is summed to a's shape",
                                                  .inputs = {{"a"}, {"b"}, {"dy"}},
                                                  .outputs = {{"da"}},
                                                  .samples = BaseGradSamples}),
          Broadcasting<functions::PowerExponentGrad>({.name = "pow_exponent_grad",
                                                      .doc = "db = dy y log(a), before it is summed to b's shape",
                                                      .inputs = {{"a"}, {"y"}, {"dy"}},
                                                      .outputs = {{"db"}},
                                                      .samples = ExponentGradSamples})};
}

}  // namespace snug::core::ops::pow
