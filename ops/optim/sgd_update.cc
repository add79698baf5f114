// sgd_update: one step of plain stochastic gradient descent, in the order of operations of torch.optim.SGD.
#include "ops/kernels/update/samples.h"
#include "ops/optim/update_op.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"

namespace snug::core::ops::sgd_update {
namespace {

void Samples(SampleBuilder& s) {
  const auto update = UpdateSamples::Of<updates::Sgd>(s);
  update.Any("plain", "", {5, 7});
  update.Any("decay", "weight_decay: 0.1 lr_mult: 2", {131});
  update.GateClosed("");
  update.Expect("known", "weight_decay: 0.1 lr_mult: 2",
                {.rate = 0.1, .grad = {0.5, 0.25}, .param_after = {0.88, -2.01}});
  update.Kept("kept_in_bfloat16", "weight_decay: 0.1 lr_mult: 2");
  s.Case("not_rounded")
      .Input({4})
      .Narrow()
      .Input({4})
      .Input({})
      .Bytes({})
      .Only({DType::kBFloat16})
      .Fails(
          "input 0 \"param\" [4]: is bfloat16, which is rounded stochastically: expected input 4 \"rounding\", found "
          "none");
  s.Case("shape").Input({4}).Input({5}).Input({}).Bytes({}).Fails("input 1 \"grad\" [5]: expected shape [4]");
  s.Case("rate").Input({4}).Input({4}).Input({1}).Bytes({}).Fails("input 2 \"lr\" [1]: expected shape []");
  s.Case("gate").Input({4}).Input({4}).Input({}).Bytes({2}).Fails("input 3 \"gate\" [2]: expected shape []");
}

}  // namespace

SNUG_OPS(sgd_update) {
  return {UpdateOp<updates::Sgd>("sgd_update", "param -= lr (grad + weight_decay param)", {}, Samples)};
}

}  // namespace snug::core::ops::sgd_update
