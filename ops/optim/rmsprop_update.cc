// rmsprop_update, rmsprop_momentum_update: RMSprop (Hinton 2012), in the order of operations of torch.optim.RMSprop.
// Option beta2 is PyTorch's alpha.
#include "ops/kernels/update/samples.h"
#include "ops/optim/update_op.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"

namespace snug::core::ops::rmsprop_update {
namespace {

void Samples(SampleBuilder& s) {
  const auto update = UpdateSamples::Of<updates::Rmsprop>(s);
  update.Any("some", "beta2: 0.99 epsilon: 1e-8", {5, 7});
  update.Any("decay", "beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1 lr_mult: 2", {131});
  update.GateClosed("beta2: 0.99 epsilon: 1e-8");
  update.Expect("known", "beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1",  // by torch.optim.RMSprop
                {.rate = 0.01,
                 .grad = {0.5, 0.25},
                 .slots = {{0.01, 0.04}},
                 .param_after = {0.9483602264950118, -2.002511801670334},
                 .slots_after = {{0.013500000000000003, 0.039625}}});
  update.Kept("kept_in_bfloat16", "beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1");
  update.OtherSlots({"v"});
}

void MomentumSamples(SampleBuilder& s) {
  const auto update = UpdateSamples::Of<updates::RmspropMomentum>(s);
  update.Any("some", "beta2: 0.99 epsilon: 1e-8 momentum: 0.9", {5, 7});
  update.Any("decay", "beta2: 0.99 epsilon: 1e-8 momentum: 0.5 weight_decay: 0.1 lr_mult: 2", {131});
  update.GateClosed("beta2: 0.99 epsilon: 1e-8");
  update.Expect("known", "beta2: 0.99 epsilon: 1e-8 weight_decay: 0.1 momentum: 0.9",  // by torch.optim.RMSprop
                {.rate = 0.01,
                 .grad = {0.5, 0.25},
                 .slots = {{0.01, 0.04}, {0.5, -1.0}},
                 .param_after = {0.9438602264950119, -1.9935118016703337},
                 .slots_after = {{0.013500000000000003, 0.039625}, {5.613977350498816, -0.6488198329666318}}});
  update.Kept("kept_in_bfloat16", "beta2: 0.99 epsilon: 1e-8 momentum: 0.5");
  update.OtherSlots({"v", "velocity"});
}

}  // namespace

SNUG_OPS(rmsprop_update) {
  return {
      UpdateOp<updates::Rmsprop>(
          "rmsprop_update", "v = alpha v + (1 - alpha) grad^2; param -= lr grad / (sqrt(v) + epsilon)", {"v"}, Samples),
      UpdateOp<updates::RmspropMomentum>("rmsprop_momentum_update",
                                         "v = alpha v + (1 - alpha) grad^2; velocity = momentum velocity + grad / "
                                         "(sqrt(v) + epsilon); param -= lr velocity",
                                         {"v", "velocity"}, MomentumSamples)};
}

}  // namespace snug::core::ops::rmsprop_update
