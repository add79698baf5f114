// momentum_update: gradient descent with momentum, or with Nesterov's, in the order of operations of torch.optim.SGD.
// The velocity starts at zero, which gives PyTorch's first step too.
#include "ops/kernels/update/samples.h"
#include "ops/optim/update_op.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"

namespace snug::core::ops::momentum_update {
namespace {

void Samples(SampleBuilder& s) {
  const auto update = UpdateSamples::Of<updates::Momentum>(s);
  update.Any("plain", "momentum: 0.9", {5, 7});
  update.Any("decay", "momentum: 0.9 weight_decay: 0.1 lr_mult: 2", {131});
  update.Any("nesterov", "momentum: 0.9 weight_decay: 0.1 nesterov: true", {131});
  update.GateClosed("momentum: 0.9");
  UpdateSamples::Known known{// by torch.optim.SGD
                             .rate = 0.1,
                             .grad = {0.5, 0.25},
                             .slots = {{0.5, 1}},
                             .param_after = {0.895, -2.095},
                             .slots_after = {{1.05, 0.95}}};
  update.Expect("known", "momentum: 0.9 weight_decay: 0.1", known);
  known.param_after = {0.8455, -2.0905};
  update.Expect("known_nesterov", "momentum: 0.9 weight_decay: 0.1 nesterov: true", known);
  update.Kept("kept_in_bfloat16", "momentum: 0.9 weight_decay: 0.1");
  update.Kept("nesterov_kept_in_bfloat16", "momentum: 0.9 nesterov: true", {131});
  update.OtherSlots({"velocity"});
}

}  // namespace

SNUG_OPS(momentum_update) {
  return {UpdateOp<updates::Momentum>("momentum_update",
                                      "velocity = momentum velocity + grad + weight_decay param; param -= lr velocity",
                                      {"velocity"}, Samples)};
}

}  // namespace snug::core::ops::momentum_update
