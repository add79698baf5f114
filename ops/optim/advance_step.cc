// advance_step: counts a step of training in the state of the random numbers, {seed, step}.
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/random_state.h"
#include "ops/op_def.h"
#include "ops/optim/updates_cuda.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::advance_step {
namespace {

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckRandomState(c, 0));
  return c.CheckShape(1, Shape());
}

absl::Status Kernel(const KernelContext& k) {
  k.variable<int64_t>(0)[1] += *k.input<uint8_t>(1);
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  s.Case("open").Int({2}, 0, 9, DType::kInt64).Bytes({}).Values({1});
  s.Case("closed").Int({2}, 0, 9, DType::kInt64).Bytes({}).Values({0});
  s.Case("not_a_state").Int({3}, 0, 9, DType::kInt64).Bytes({}).Fails("expected int64[2], found int64[3]");
  s.Case("gate").Int({2}, 0, 9, DType::kInt64).Bytes({2}).Fails("input 1 \"gate\" [2]: expected shape []");
}

}  // namespace

SNUG_OPS(advance_step) {
  return {{.name = "advance_step",
           .doc = "step += gate",
           .inputs = {{"state", PortType::kInteger}, {"gate", PortType::kBytes}},
           .outputs = {},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMutates, 0, 0}},
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA(AdvanceStepCuda))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::advance_step
