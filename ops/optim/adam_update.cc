// adam_update: Adam (Kingma, Ba 2015) and AdamW (Loshchilov, Hutter 2019), in the order of operations of
// torch.optim.Adam. The step that corrects the bias comes from the random state {seed, step}, which counts from zero.
#include "ops/kernels/update/samples.h"
#include "ops/optim/update_op.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"

namespace snug::core::ops::adam_update {
namespace {

void Samples(SampleBuilder& s) {
  const auto update = UpdateSamples::Of<updates::Adam>(s);
  update.Any("first_step", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8", {5, 7}, /*done=*/0);
  update.Any("decay", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1 lr_mult: 2", {131});
  update.Any("adamw", "beta1: 0.8 beta2: 0.99 epsilon: 1e-6 weight_decay: 0.1 decoupled_decay: true", {131},
             /*done=*/99);
  update.GateClosed("beta1: 0.9 beta2: 0.999 epsilon: 1e-8");
  UpdateSamples::Known known{// by torch.optim.Adam
                             .rate = 0.01,
                             .grad = {0.5, 0.25},
                             .slots = {{0.1, -0.2}, {0.01, 0.04}},
                             .param_after = {0.9977413503496595, -1.99865896685293},
                             .slots_after = {{0.15, -0.175}, {0.01035, 0.0399625}}};
  update.Expect("known", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1", known);
  known.param_after = {0.9968806345806693, -1.996813118446308};  // by torch.optim.AdamW
  known.slots_after = {{0.14, -0.155}, {0.01024, 0.0400225}};
  update.Expect("known_adamw", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1 decoupled_decay: true", known);
  update.Kept("kept_in_bfloat16", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1");
  update.OtherSlots({"m", "v"});
  update.OtherState();
}

}  // namespace

SNUG_OPS(adam_update) {
  return {UpdateOp<updates::Adam>(
      "adam_update",
      "m = beta1 m + (1 - beta1) grad; v = beta2 v + (1 - beta2) grad^2; param -= lr m' / (sqrt(v') + epsilon), "
      "' with the bias corrected",
      {"m", "v"}, Samples)};
}

}  // namespace snug::core::ops::adam_update
