// add: y = a + b with NumPy broadcasting.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::add {
namespace {

absl::Status Gradient(GradContext& g) {
  for (const int i : {0, 1}) {
    if (g.wants(i)) g.SetInputGrad(i, SumToShape(g, g.output_grad(0), g.input_type(i).shape));
  }
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("same_shape").Input({5, 7}).Input({5, 7});
  s.Case("scalar").Input({2, 3, 4}).Input({});
  s.Case("scalar_first").Input({}).Input({33});
  s.Case("per_channel").Input({2, 3, 4, 5}).Input({3, 1, 1});
  s.Case("per_channel_full_rank").Input({2, 3, 4, 5}).Input({1, 3, 1, 1});
  s.Case("per_sample_and_channel").Input({2, 3, 1, 1}).Input({2, 3, 4, 5});
  s.Case("per_map").Input({2, 3, 4, 5}).Input({3, 4, 5});
  s.Case("trailing").Input({6, 5}).Input({5});
  s.Case("outer").Input({19, 1}).Input({1, 37});
  s.Case("both_ways").Input({3, 1, 5, 1}).Input({2, 1, 7});
  s.Case("longer_than_a_block").Input({3, 401}).Input({3, 1});
  s.Case("known").Input({2, 2}).Values({1, 2, 3, 4}).Input({2}).Values({10, 20}).Expect(0, {11, 22, 13, 24});
  s.Case("shape_mismatch").Input({4, 3}).Input({4}).Fails("[4, 3]");
  s.Case("integers").Int({4}, 0, 9).Int({4}, 0, 9).Fails("expected a floating-point value");
}

}  // namespace

SNUG_OPS(add) {
  return {Broadcasting<functions::Add>({.name = "add",
                                        .doc = "y = a + b",
                                        .inputs = {{"a"}, {"b"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples})};
}

}  // namespace snug::core::ops::add
