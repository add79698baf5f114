// l1_loss: the mean of |x - target| over all elements. Where both are equal the gradient is 0.
#include "ops/kit/elementwise.h"
#include "ops/kit/mean_loss.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::l1_loss {
namespace {

absl::Status Layer(LayerContext& c) { return MeanLossLayer(c, "absolute_error"); }

absl::Status Gradient(GradContext& g) { return GradientOfEven(g, "absolute_error_grad"); }

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-1, -0.1).Input({5, 7}).Range(0, 1);
  s.Case("image").Input({2, 3, 5, 7}).Range(0.1, 1).Input({2, 3, 5, 7}).Range(-1, 0);
  s.Case("known").Input({3}).Values({1, 2, 5}).NoGradient().Input({3}).Values({3, 2, 1}).NoGradient().Expect(0,
                                                                                                             {2, 0, 4});
  s.Case("shape").Input({5, 7}).Input({5, 1}).Fails("input 1 \"target\" [5, 1]: expected shape [5, 7]");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known").Input({3}).Values({1, 2, 5}).Input({3}).Values({3, 2, 1}).Input({3}).Values({2, 3, 4}).Expect(
      0, {-2, 0, 4});
  s.Case("shape").Input({4}).Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(l1_loss) {
  return {LossLayer("l1_loss", "loss = mean of |x - target|", Layer),
          Elementwise<functions::AbsoluteError>({.name = "absolute_error",
                                                 .doc = "y = |x - target|",
                                                 .inputs = {{"x", PortType::kFloat32}, {"target", PortType::kFloat32}},
                                                 .outputs = {{"y", PortType::kFloat32}},
                                                 .gradient = Gradient,
                                                 .samples = Samples}),
          Elementwise<functions::AbsoluteErrorGrad>(
              {.name = "absolute_error_grad",
               .doc = "dx = dy sign(x - target)",
               .inputs = {{"x", PortType::kFloat32}, {"target", PortType::kFloat32}, {"dy", PortType::kFloat32}},
               .outputs = {{"dx", PortType::kFloat32}},
               .samples = GradSamples})};
}

}  // namespace snug::core::ops::l1_loss
