// selu: y = scale x where x > 0, else scale alpha (exp(x) - 1), with the scale and alpha that keep mean 0 and variance
// 1 through layers (Klambauer et al. 2017). The sign of y tells that of x, so the gradient reads y.
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::selu {
namespace {

absl::Status Gradient(GradContext& g) { return GradientFromOutput(g, "selu_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("vector").Input({5, 7}).Range(-4, 4).AwayFrom({0});
  s.Case("image").Input({2, 3, 4, 5}).AwayFrom({0});
  s.Case("known")
      .Input({4})
      .Values({-1000, -1, 0, 2})
      .NoGradient()
      .Expect(0, {-1.75809934084737686, -1.11133073781256250, 0, 2.10140197471096099});
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .Input({3})
      .Values({-1, 0, 1})
      .Input({3})
      .Values({2, 2, 2})
      .Expect(0, {1.51619868169475318, 3.51619868169475318, 2.10140197471096099});
  s.Case("shape_mismatch").Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(selu) {
  return {Elementwise<functions::Selu>({.name = "selu",
                                        .doc = "y = 1.0507 x where x > 0, else 1.7581 (exp(x) - 1)",
                                        .inputs = {{"x"}},
                                        .outputs = {{"y"}},
                                        .gradient = Gradient,
                                        .samples = Samples}),
          Elementwise<functions::SeluGrad>({.name = "selu_grad",
                                            .doc = "dx = 1.0507 dy where y > 0, else dy (y + 1.7581)",
                                            .inputs = {{"y"}, {"dy"}},
                                            .outputs = {{"dx"}},
                                            .samples = GradSamples})};
}

}  // namespace snug::core::ops::selu
