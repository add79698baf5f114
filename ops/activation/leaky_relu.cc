// leaky_relu: y = x where x > 0, else slope x. The sign of y tells that of x, so the gradient reads y; only a negative
// slope makes it read x.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::leaky_relu {
namespace {

using proto::ParseOptions;

functions::LeakyRelu LeakyReluOf(const Options& options) { return {options.Get<proto::LeakyRelu>().slope()}; }
functions::LeakyReluGrad LeakyReluGradOf(const Options& options) { return {options.Get<proto::LeakyRelu>().slope()}; }

absl::Status Gradient(GradContext& g) {
  return g.options<proto::LeakyRelu>().slope() < 0 ? GradientFromInput(g, "leaky_relu_grad")
                                                   : GradientFromOutput(g, "leaky_relu_grad");
}

void Samples(SampleBuilder& s) {
  s.Case("default").Input({5, 7}).AwayFrom({0});
  s.Case("slope").With(ParseOptions<proto::LeakyRelu>("slope: 0.25")).Input({2, 3, 4, 5}).AwayFrom({0});
  s.Case("slope_0").With(ParseOptions<proto::LeakyRelu>("slope: 0")).Input({5, 7}).AwayFrom({0});
  s.Case("negative_slope").With(ParseOptions<proto::LeakyRelu>("slope: -0.5")).Input({5, 7}).AwayFrom({0});
  s.Case("known")
      .With(ParseOptions<proto::LeakyRelu>("slope: 0.25"))
      .Input({3})
      .Values({-2, 0, 2})
      .NoGradient()
      .Expect(0, {-0.5, 0, 2});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .With(ParseOptions<proto::LeakyRelu>("slope: 0.25"))
      .Input({3})
      .Values({-1, 0, 1})
      .Input({3})
      .Values({4, 4, 4})
      .Expect(0, {1, 1, 4});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(leaky_relu) {
  return {Elementwise<functions::LeakyRelu, LeakyReluOf>({.name = "leaky_relu",
                                                          .doc = "y = x where x > 0, else slope x",
                                                          .inputs = {{"x"}},
                                                          .outputs = {{"y"}},
                                                          .gradient = Gradient,
                                                          .samples = Samples}),
          Elementwise<functions::LeakyReluGrad, LeakyReluGradOf>({.name = "leaky_relu_grad",
                                                                  .doc = "dx = dy where y > 0, else slope dy",
                                                                  .inputs = {{"y"}, {"dy"}},
                                                                  .outputs = {{"dx"}},
                                                                  .samples = GradSamples})};
}

}  // namespace snug::core::ops::leaky_relu
