// mul: y = a b, element by element, with NumPy broadcasting.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::mul {
namespace {

absl::Status Gradient(GradContext& g) {  // da = dy b, db = dy a
  for (const int i : {0, 1}) {
    if (!g.wants(i)) continue;
    const ValueId product = g.Op("mul", {g.output_grad(0), g.input(1 - i)});
    g.SetInputGrad(i, SumToShape(g, product, g.input_type(i).shape));
  }
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("same_shape").Input({5, 7}).Input({5, 7});
  s.Case("scalar").Input({2, 3, 4}).Input({});
  s.Case("squeeze_and_excite").Input({2, 3, 4, 5}).Input({2, 3, 1, 1});
  s.Case("per_channel").Input({3, 1, 1}).Input({2, 3, 4, 5});
  s.Case("trailing").Input({6, 21}).Input({21});
  s.Case("both_ways").Input({3, 1, 5}).Input({2, 1});
  s.Case("known").Input({3}).Values({1, -2, 3}).Input({}).Values({2}).Expect(0, {2, -4, 6});
  s.Case("shape_mismatch").Input({4, 3}).Input({2, 3}).Fails("[2, 3]");
}

}  // namespace

SNUG_OPS(mul) {
  return {Broadcasting<functions::Mul>({.name = "mul",
                                        .doc = "y = a b",
                                        .inputs = {{"a"}, {"b"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples})};
}

}  // namespace snug::core::ops::mul
