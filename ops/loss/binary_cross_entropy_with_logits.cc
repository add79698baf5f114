// binary_cross_entropy_with_logits: the mean of -target log(s) - (1 - target) log(1 - s), s = sigmoid(x), over all
// elements. Targets are probabilities.
#include "ops/kit/elementwise.h"
#include "ops/kit/mean_loss.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::binary_cross_entropy_with_logits {
namespace {

absl::Status Layer(LayerContext& c) { return MeanLossLayer(c, "binary_cross_entropy"); }

absl::Status Gradient(GradContext& g) {
  if (g.wants(0)) {
    g.SetInputGrad(0, g.Op("binary_cross_entropy_grad", {g.input(0), g.input(1), g.output_grad(0)}));
  }
  if (g.wants(1)) g.SetInputGrad(1, g.Op("neg", {g.Op("mul", {g.input(0), g.output_grad(0)})}));  // -x dy
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-4, 4).AwayFrom({0}).Input({5, 7}).Range(0, 1);
  s.Case("image").Input({2, 3, 5, 7}).AwayFrom({0}).Input({2, 3, 5, 7}).Range(0, 1);
  s.Case("known")
      .Input({5})
      .Values({0, 1, 1000, -1000, 1000})
      .NoGradient()
      .Input({5})
      .Values({0.25, 0.5, 1, 0, 0.5})
      .NoGradient()
      .Expect(0, {0.693147180559945309, 0.813261687518222834, 0, 0, 500});
  s.Case("shape").Input({5, 7}).Input({5, 1}).Fails("input 1 \"target\" [5, 1]: expected shape [5, 7]");
}

void GradSamples(SampleBuilder& s) {
  s.Case("known")
      .Input({3})
      .Values({0, 1000, -1000})
      .Input({3})
      .Values({0.25, 0, 1})
      .Input({3})
      .Values({4, 2, 3})
      .Expect(0, {1, 2, -3});
  s.Case("shape").Input({4}).Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(binary_cross_entropy_with_logits) {
  return {LossLayer("binary_cross_entropy_with_logits",
                    "loss = mean of -target log(s) - (1 - target) log(1 - s), s = 1 / (1 + exp(-x))", Layer),
          Elementwise<functions::BinaryCrossEntropy>(
              {.name = "binary_cross_entropy",
               .doc = "y = -target log(s) - (1 - target) log(1 - s), s = 1 / (1 + exp(-x))",
               .inputs = {{"x", PortType::kFloat32}, {"target", PortType::kFloat32}},
               .outputs = {{"y", PortType::kFloat32}},
               .gradient = Gradient,
               .samples = Samples}),
          Elementwise<functions::BinaryCrossEntropyGrad>(
              {.name = "binary_cross_entropy_grad",
               .doc = "dx = dy (1 / (1 + exp(-x)) - target)",
               .inputs = {{"x", PortType::kFloat32}, {"target", PortType::kFloat32}, {"dy", PortType::kFloat32}},
               .outputs = {{"dx", PortType::kFloat32}},
               .samples = GradSamples})};
}

}  // namespace snug::core::ops::binary_cross_entropy_with_logits
