// div: y = a / b with NumPy broadcasting. The gradient of b reads y, so that a is free.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::div {
namespace {

absl::Status Gradient(GradContext& g) {
  if (g.wants(0)) {
    const ValueId quotient = g.Op("div", {g.output_grad(0), g.input(1)});
    g.SetInputGrad(0, SumToShape(g, quotient, g.input_type(0).shape));
  }
  if (g.wants(1)) {
    const ValueId grad = g.Op("div_grad", {g.output(0), g.input(1), g.output_grad(0)});
    g.SetInputGrad(1, SumToShape(g, grad, g.input_type(1).shape));
  }
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("same_shape").Input({5, 7}).Input({5, 7}).Range(0.5, 2);
  s.Case("scalar").Input({2, 3, 4}).Input({}).Range(0.5, 2);
  s.Case("scalar_first").Input({}).Input({33}).Range(-2, -0.5);
  s.Case("per_channel").Input({2, 3, 4, 5}).Input({3, 1, 1}).Range(0.5, 2);
  s.Case("both_ways").Input({3, 1, 5}).Input({2, 1}).Range(0.5, 2);
  s.Case("known").Input({3}).Values({1, 2, 3}).Input({}).Values({2}).Expect(0, {0.5, 1, 1.5});
  s.Case("shape_mismatch").Input({4, 3}).Input({2, 3}).Fails("do not broadcast");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({2}).Values({3, 4}).Input({}).Values({2}).Input({2}).Values({1, -1}).Expect(0, {-1.5, 2});
  s.Case("per_channel").Input({2, 3, 4, 5}).Input({3, 1, 1}).Range(0.5, 2).Input({2, 3, 4, 5});
  s.Case("shape_mismatch").Input({4}).Input({3}).Input({4}).Fails("do not broadcast");
}

}  // namespace

SNUG_OPS(div) {
  return {Broadcasting<functions::Div>({.name = "div",
                                        .doc = "y = a / b",
                                        .inputs = {{"a"}, {"b"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples}),
          Broadcasting<functions::DivGrad>({.name = "div_grad",
                                            .doc = "db = -dy y / b, before it is summed to b's shape",
                                            .inputs = {{"y"}, {"b"}, {"dy"}},
                                            .outputs = {{"db"}},
                                            .samples = GradSamples})};
}

}  // namespace snug::core::ops::div
