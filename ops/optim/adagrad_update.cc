// adagrad_update: Adagrad (Duchi et al. 2011), in the order of operations of torch.optim.Adagrad. The steps before this
// one, which may make its rate smaller, come from the random state {seed, step}.
#include "ops/kernels/update/samples.h"
#include "ops/optim/update_op.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"

namespace snug::core::ops::adagrad_update {
namespace {

void Samples(SampleBuilder& s) {
  const auto update = UpdateSamples::Of<updates::Adagrad>(s);
  update.Any("some", "epsilon: 1e-10", {5, 7});
  update.Any("decay", "epsilon: 1e-10 weight_decay: 0.1 lr_mult: 2 lr_decay: 0.5", {131});
  update.GateClosed("epsilon: 1e-10");
  UpdateSamples::Known known{// by torch.optim.Adagrad
                             .rate = 0.01,
                             .grad = {0.5, 0.25},
                             .slots = {{0.01, 0.04}},
                             .param_after = {0.9901360607633002, -2.0024253562491867},
                             .slots_after = {{0.37, 0.0425}}};
  update.Expect("known", "epsilon: 1e-10 weight_decay: 0.1", known);
  known.param_after = {0.9969828286907735, -2.0024026732590743};
  known.slots_after = {{0.26, 0.10250000000000001}};
  update.Expect("known_lr_decay", "epsilon: 1e-10 lr_decay: 0.25", known);
  update.Kept("kept_in_bfloat16", "epsilon: 1e-10 weight_decay: 0.1");
  update.OtherSlots({"sum"});
  update.OtherState();
}

}  // namespace

SNUG_OPS(adagrad_update) {
  return {UpdateOp<updates::Adagrad>("adagrad_update",
                                     "sum += grad^2; param -= lr / (1 + lr_decay step) grad / (sqrt(sum) + epsilon)",
                                     {"sum"}, Samples)};
}

}  // namespace snug::core::ops::adagrad_update
