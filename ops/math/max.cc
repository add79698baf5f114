// max, min: y = the larger or the smaller of a and b, with NumPy broadcasting; NaN wins. Where both are equal each gets
// half of the gradient, as in torch.maximum and torch.minimum.
#include <vector>

#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::max {
namespace {

template <bool kLarger>
absl::Status Gradient(GradContext& g) {  // an input gets dy where it is what is taken
  for (const int i : {0, 1}) {
    if (!g.wants(i)) continue;
    const ValueId own = g.input(i), other = g.input(1 - i);
    const ValueId grad = g.Op("max_grad", {kLarger ? own : other, kLarger ? other : own, g.output_grad(0)});
    g.SetInputGrad(i, SumToShape(g, grad, g.input_type(i).shape));
  }
  return g.status();
}

template <bool kLarger>
void Samples(SampleBuilder& s) {
  s.Case("same_shape").Input({5, 7}).Range(-1, 0).Distinct().Input({5, 7}).Range(0.02, 0.5).Distinct();
  s.Case("scalar").Input({2, 3, 4}).AwayFrom({0}).Input({}).Values({0});
  s.Case("per_channel").Input({2, 3, 4, 5}).AwayFrom({0.25}).Input({3, 1, 1}).Values({0.25, 0.25, 0.25});
  s.Case("both_ways").Input({3, 1, 5}).AwayFrom({-0.5}).Input({2, 1}).Values({-0.5, -0.5});
  s.Case("known").Input({3}).Values({1, 2, 3}).NoGradient().Input({}).Values({2}).NoGradient().Expect(
      0, kLarger ? std::vector<double>{2, 2, 3} : std::vector<double>{1, 2, 2});
  s.Case("shape_mismatch").Input({4, 3}).Input({2, 3}).Fails("do not broadcast");
}

void GradSamples(SampleBuilder& s) {
  s.Case("ties").Input({3}).Values({1, 2, 3}).Input({}).Values({2}).Input({3}).Values({1, 1, 1}).Expect(0, {0, 0.5, 1});
  s.Case("per_channel").Input({2, 3, 4, 5}).Input({3, 1, 1}).Input({2, 3, 4, 5});
  s.Case("shape_mismatch").Input({4}).Input({3}).Input({4}).Fails("do not broadcast");
}

}  // namespace

SNUG_OPS(max) {
  const auto op = [](absl::string_view name, absl::string_view doc, GradientFn gradient, SamplesFn samples) {
    return OpDef{.name = name,
                 .doc = doc,
                 .inputs = {{"a"}, {"b"}},
                 .outputs = {{"y"}},
                 .gradient = gradient,
                 .samples = samples};
  };
  return {
      Broadcasting<functions::Max>(op("max", "y = the larger of a and b", Gradient<true>, Samples<true>)),
      Broadcasting<functions::Min>(op("min", "y = the smaller of a and b", Gradient<false>, Samples<false>)),
      Broadcasting<functions::MaxGrad>({.name = "max_grad",
                                        .doc = "da = dy where a > b, dy / 2 where a = b, else 0; before it is summed",
                                        .inputs = {{"a"}, {"b"}, {"dy"}},
                                        .outputs = {{"da"}},
                                        .samples = GradSamples})};
}

}  // namespace snug::core::ops::max
