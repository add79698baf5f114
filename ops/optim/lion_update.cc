// lion_update: Lion (Chen et al. 2023, algorithm 2). Only the sign of a mean of gradients counts; the decay acts on the
// parameter.
#include "ops/kernels/update/samples.h"
#include "ops/optim/update_op.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"

namespace snug::core::ops::lion_update {
namespace {

void Samples(SampleBuilder& s) {
  const auto update = UpdateSamples::Of<updates::Lion>(s);
  update.Any("some", "beta1: 0.9 beta2: 0.99", {5, 7});
  update.Any("decay", "beta1: 0.9 beta2: 0.99 weight_decay: 0.1 lr_mult: 2", {131});
  update.GateClosed("beta1: 0.9 beta2: 0.99");
  update.Expect("known", "beta1: 0.9 beta2: 0.99 weight_decay: 0.1",  // from the paper's formulas
                {.rate = 0.01,
                 .grad = {0.5, 0.25},
                 .slots = {{0.1, -0.2}},
                 .param_after = {0.989, -1.988},
                 .slots_after = {{0.10400000000000001, -0.1955}}});
  update.Kept("kept_in_bfloat16", "beta1: 0.9 beta2: 0.99 weight_decay: 0.1");
  update.OtherSlots({"m"});
}

}  // namespace

SNUG_OPS(lion_update) {
  return {UpdateOp<updates::Lion>(
      "lion_update",
      "param -= lr (sign(beta1 m + (1 - beta1) grad) + weight_decay param); m = beta2 m + (1 - beta2) grad", {"m"},
      Samples)};
}

}  // namespace snug::core::ops::lion_update
