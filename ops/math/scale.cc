// scale: y = factor x + offset.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::scale {
namespace {

using proto::ParseOptions;

functions::Scale ScaleOf(const Options& options) {
  return {.factor = options.Get<proto::Scale>().factor(), .offset = options.Get<proto::Scale>().offset()};
}

absl::Status Gradient(GradContext& g) {  // dx = factor dy
  proto::Scale options;
  options.set_factor(g.options<proto::Scale>().factor());
  g.SetInputGrad(0, g.Op("scale", {g.output_grad(0)}, proto::MakeOptions(options)));
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("default").Input({5, 7});
  s.Case("both").With(ParseOptions<proto::Scale>("factor: -2.5 offset: 1")).Input({2, 3, 4, 5});
  s.Case("known")
      .With(ParseOptions<proto::Scale>("factor: 2 offset: 1"))
      .Input({3})
      .Values({0, 1, -2})
      .Expect(0, {1, 3, -3});
}

}  // namespace

SNUG_OPS(scale) {
  return {Elementwise<functions::Scale, ScaleOf>({.name = "scale",
                                                  .doc = "y = factor x + offset",
                                                  .inputs = {{"x"}},
                                                  .outputs = {{"y"}},
                                                  .gradient = Gradient,
                                                  .samples = Samples})};
}

}  // namespace snug::core::ops::scale
