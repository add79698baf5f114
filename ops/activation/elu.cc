// elu: y = x where x > 0, else alpha (exp(x) - 1). As alpha is not negative, the sign of y tells that of x, and the
// gradient reads y.
#include <absl/strings/str_cat.h>

#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::elu {
namespace {

using proto::ParseOptions;

functions::Elu EluOf(const Options& options) { return {options.Get<proto::Elu>().alpha()}; }
functions::EluGrad EluGradOf(const Options& options) { return {options.Get<proto::Elu>().alpha()}; }

template <int kInputs>
absl::Status Infer(InferContext& c) {
  const double alpha = c.options<proto::Elu>().alpha();
  if (!(alpha >= 0)) return c.OptionError("alpha", absl::StrCat("expected at least 0, found ", alpha));
  return core::internal::InferSameShape<kInputs>(c);
}

absl::Status Gradient(GradContext& g) { return GradientFromOutput(g, "elu_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("default").Input({5, 7}).Range(-4, 4);
  s.Case("alpha").With(ParseOptions<proto::Elu>("alpha: 0.25")).Input({2, 3, 4, 5}).AwayFrom({0});
  s.Case("alpha_0").With(ParseOptions<proto::Elu>("alpha: 0")).Input({5, 7}).AwayFrom({0});
  s.Case("known")
      .With(ParseOptions<proto::Elu>("alpha: 2"))
      .Input({5})
      .Values({-1000, -1, -1e-10, 0, 3})
      .NoGradient()
      .Expect(0, {-2, -1.26424111765711536, -2e-10, 0, 3});
  s.Case("negative_alpha")
      .With(ParseOptions<proto::Elu>("alpha: -1"))
      .Input({4})
      .Fails("option \"alpha\": expected at least 0, found -1");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .With(ParseOptions<proto::Elu>("alpha: 2"))
      .Input({4})
      .Values({-2, -0.5, 0, 3})
      .Input({4})
      .Values({4, 4, 4, 4})
      .Expect(0, {0, 6, 8, 4});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(elu) {
  return {Elementwise<functions::Elu, EluOf>({.name = "elu",
                                              .doc = "y = x where x > 0, else alpha (exp(x) - 1)",
                                              .inputs = {{"x"}},
                                              .outputs = {{"y"}},
                                              .infer = Infer<1>,
                                              .gradient = Gradient,
                                              .samples = Samples}),
          Elementwise<functions::EluGrad, EluGradOf>({.name = "elu_grad",
                                                      .doc = "dx = dy where y > 0, else dy (y + alpha)",
                                                      .inputs = {{"y"}, {"dy"}},
                                                      .outputs = {{"dx"}},
                                                      .infer = Infer<2>,
                                                      .samples = GradSamples})};
}

}  // namespace snug::core::ops::elu
