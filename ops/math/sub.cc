// sub: y = a - b with NumPy broadcasting.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::sub {
namespace {

absl::Status Gradient(GradContext& g) {  // da = dy; db = -dy is negated after it is summed, because it is smaller then
  if (g.wants(0)) g.SetInputGrad(0, SumToShape(g, g.output_grad(0), g.input_type(0).shape));
  if (g.wants(1)) g.SetInputGrad(1, g.Op("neg", {SumToShape(g, g.output_grad(0), g.input_type(1).shape)}));
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("same_shape").Input({5, 7}).Input({5, 7});
  s.Case("scalar").Input({2, 3, 4}).Input({});
  s.Case("scalar_first").Input({}).Input({33});
  s.Case("per_channel").Input({2, 3, 4, 5}).Input({3, 1, 1});
  s.Case("both_ways").Input({3, 1, 5}).Input({2, 1});
  s.Case("known").Input({3}).Values({1, 2, 3}).Input({}).Values({2}).Expect(0, {-1, 0, 1});
  s.Case("shape_mismatch").Input({4, 3}).Input({2, 3}).Fails("do not broadcast");
  s.Case("integers").Int({4}, 0, 9).Int({4}, 0, 9).Fails("expected a floating-point value");
}

}  // namespace

SNUG_OPS(sub) {
  return {Broadcasting<functions::Sub>({.name = "sub",
                                        .doc = "y = a - b",
                                        .inputs = {{"a"}, {"b"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples})};
}

}  // namespace snug::core::ops::sub
