// sgd_update: one step of plain stochastic gradient descent, in the order of operations of torch.optim.SGD.
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/cuda_together.h"
#include "ops/op_def.h"
#include "ops/optim/update.h"
#include "ops/optim/update_numbers.h"
#include "ops/optim/updates_cuda.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::sgd_update {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) { return CheckUpdate(c, /*slots=*/0); }

absl::Status UpdateCpu(const KernelContext& k) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  return DispatchKept(k, /*slots=*/0, [&](auto zero, auto grad_zero) {
    using P = decltype(zero);
    using T = Accumulator<P>;
    using G = decltype(grad_zero);
    const auto& options = k.options<proto::Update>();
    const G* g = k.input<G>(1);
    const T lr = static_cast<T>(static_cast<double>(*k.input<T>(2)) * options.lr_mult());
    const T decay = static_cast<T>(options.weight_decay());
    UpdateVariables<1, P>(k, 0, /*squares=*/0,
                          [=](int64_t i, T& p) SNUG_LAMBDA { p -= lr * (static_cast<T>(g[i]) + decay * p); });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  s.Case("plain").Input({5, 7}).Input({5, 7}).Input({}).Range(0.01, 0.1).Bytes({}).Values({1});
  s.Case("decay")
      .With(ParseOptions<proto::Update>("weight_decay: 0.1 lr_mult: 2"))
      .Input({131})
      .Input({131})
      .Input({})
      .Range(0.01, 0.1)
      .Bytes({})
      .Values({1});
  s.Case("gate_closed").Input({9}).Input({9}).Input({}).Bytes({}).Values({0});
  s.Case("known")
      .With(ParseOptions<proto::Update>("weight_decay: 0.1 lr_mult: 2"))
      .Input({2})
      .Values({1, -2})
      .Input({2})
      .Values({0.5, 0.25})
      .Input({})
      .Values({0.1})
      .Bytes({})
      .Values({1})
      .ExpectMutated(0, {0.88, -2.01});
  s.Case("kept_in_bfloat16")
      .With(ParseOptions<proto::Update>("weight_decay: 0.1 lr_mult: 2"))
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Input({})
      .Range(0.001, 0.01)
      .Bytes({})
      .Values({1})
      .Int({2}, 0, 100, DType::kInt64);
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
  return {{.name = "sgd_update",
           .doc = "param -= lr (grad + weight_decay param)",
           .inputs = {{"param", PortType::kKept},
                      {"grad"},
                      {"lr", PortType::kFloat32},
                      {"gate", PortType::kBytes},
                      kRoundingPort},
           .outputs = {},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMutates, 0, 0}},
           .kernels = {Plain(UpdateCpu),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareUpdateCuda<proto::Update>),
                        .run = SNUG_IF_CUDA(Alone<SgdUpdateCuda>),
                        .together = SNUG_IF_CUDA(SgdUpdateCuda)}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::sgd_update
