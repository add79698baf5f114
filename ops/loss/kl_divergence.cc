// kl_divergence: how far log-probabilities x are from probabilities, summed, divided by the batch (its mean over
// samples: PyTorch's "batchmean"). Of a target of 0 nothing is added.
#include "ops/kit/elementwise.h"
#include "ops/kit/mean_loss.h"
#include "ops/math/functions.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::kl_divergence {
namespace {

absl::Status Layer(LayerContext& c) {
  const ValueId parts = c.Op("kl_divergence_parts", Float32Inputs(c), {}, "parts");
  const ValueId sum = c.Op("reduce_sum", {parts}, {}, "sum");
  if (!c.status().ok()) return c.status();
  const Shape& shape = c.type(parts).shape;
  proto::Scale mean;
  mean.set_factor(1.0 / static_cast<double>(shape.rank() > 0 ? shape[0] : 1));
  c.SetOutput(0, c.Op("scale", {sum}, proto::MakeOptions(mean)));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  if (g.wants(0)) g.SetInputGrad(0, g.Op("neg", {g.Op("mul", {g.input(1), g.output_grad(0)})}));  // -target dy
  if (g.wants(1)) {
    g.SetInputGrad(1, g.Op("kl_divergence_target_grad", {g.input(0), g.input(1), g.output_grad(0)}));
  }
  return g.status();
}

void Samples(SampleBuilder& s) {
  s.Case("matrix").Input({5, 7}).Range(-3, 0).Input({5, 7}).Range(0.1, 1);
  s.Case("image").Input({2, 3, 5, 7}).Range(-3, 0).Input({2, 3, 5, 7}).Range(0.1, 1);
  s.Case("known")
      .Input({3})
      .Values({-1, -2, -1000})
      .NoGradient()
      .Input({3})
      .Values({0.5, 1, 0})
      .NoGradient()
      .Expect(0, {0.153426409720027345, 2, 0});
  s.Case("shape").Input({5, 7}).Input({5, 1}).Fails("input 1 \"target\" [5, 1]: expected shape [5, 7]");
}

void TargetGradSamples(SampleBuilder& s) {
  s.Case("known").Input({2}).Values({-1, -2}).Input({2}).Values({0.5, 1}).Input({2}).Values({2, 3}).Expect(
      0, {2.61370563888010938, 9});
  s.Case("shape").Input({4}).Input({4}).Input({5}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(kl_divergence) {
  return {LossLayer("kl_divergence",
                    "loss = sum of target (log(target) - x) / batch, x being log-probabilities (PyTorch's batchmean)",
                    Layer),
          Elementwise<functions::KlDivergence>({.name = "kl_divergence_parts",
                                                .doc = "y = target (log(target) - x), 0 where the target is 0",
                                                .inputs = {{"x", PortType::kFloat32}, {"target", PortType::kFloat32}},
                                                .outputs = {{"y", PortType::kFloat32}},
                                                .gradient = Gradient,
                                                .samples = Samples}),
          Elementwise<functions::KlDivergenceTargetGrad>(
              {.name = "kl_divergence_target_grad",
               .doc = "dtarget = dy (log(target) + 1 - x)",
               .inputs = {{"x", PortType::kFloat32}, {"target", PortType::kFloat32}, {"dy", PortType::kFloat32}},
               .outputs = {{"dtarget", PortType::kFloat32}},
               .samples = TargetGradSamples})};
}

}  // namespace snug::core::ops::kl_divergence
