// momentum_update: gradient descent with momentum, or with Nesterov's, in the order of operations of torch.optim.SGD.
// The velocity starts at zero, which gives PyTorch's first step too.
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

namespace snug::core::ops::momentum_update {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) { return CheckUpdate(c, /*slots=*/1); }

absl::Status UpdateCpu(const KernelContext& k) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  return DispatchKept(k, /*slots=*/1, [&](auto zero, auto grad_zero) {
    using P = decltype(zero);
    using T = Accumulator<P>;
    using G = decltype(grad_zero);
    const auto& options = k.options<proto::Update>();
    const G* g = k.input<G>(2);
    const T lr = static_cast<T>(static_cast<double>(*k.input<T>(3)) * options.lr_mult());
    const T momentum = static_cast<T>(options.momentum());
    const T decay = static_cast<T>(options.weight_decay());
    if (options.nesterov()) {
      UpdateVariables<2, P>(k, 0, /*squares=*/0, [=](int64_t i, T& p, T& v) SNUG_LAMBDA {
        const T grad = static_cast<T>(g[i]) + decay * p;
        const T velocity = momentum * v + grad;
        v = velocity;
        p -= lr * (grad + momentum * velocity);
      });
    } else {
      UpdateVariables<2, P>(k, 0, /*squares=*/0, [=](int64_t i, T& p, T& v) SNUG_LAMBDA {
        const T velocity = momentum * v + (static_cast<T>(g[i]) + decay * p);
        v = velocity;
        p -= lr * velocity;
      });
    }
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const char* options, const Shape& shape, double gate) {
    s.Case(name)
        .With(ParseOptions<proto::Update>(options))
        .Input(shape)
        .Input(shape)
        .Input(shape)
        .Input({})
        .Range(0.01, 0.1)
        .Bytes({})
        .Values({gate});
  };
  with("plain", "momentum: 0.9", {5, 7}, 1);
  with("decay", "momentum: 0.9 weight_decay: 0.1 lr_mult: 2", {131}, 1);
  with("nesterov", "momentum: 0.9 weight_decay: 0.1 nesterov: true", {131}, 1);
  with("gate_closed", "momentum: 0.9", {9}, 0);
  // These expect values from torch.optim.SGD
  const auto known = [&s](const char* name, const char* options, std::vector<double> param) {
    s.Case(name)
        .With(ParseOptions<proto::Update>(options))
        .Input({2})
        .Values({1, -2})
        .Input({2})
        .Values({0.5, 1})
        .Input({2})
        .Values({0.5, 0.25})
        .Input({})
        .Values({0.1})
        .Bytes({})
        .Values({1})
        .ExpectMutated(0, std::move(param))
        .ExpectMutated(1, {1.05, 0.95});
  };
  known("known", "momentum: 0.9 weight_decay: 0.1", {0.895, -2.095});
  known("known_nesterov", "momentum: 0.9 weight_decay: 0.1 nesterov: true", {0.8455, -2.0905});
  s.Case("kept_in_bfloat16")
      .With(ParseOptions<proto::Update>("momentum: 0.9 weight_decay: 0.1"))
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Input({})
      .Range(0.001, 0.01)
      .Bytes({})
      .Values({1})
      .Int({2}, 0, 100, DType::kInt64);
  s.Case("nesterov_kept_in_bfloat16")
      .With(ParseOptions<proto::Update>("momentum: 0.9 nesterov: true"))
      .Input({131})
      .Narrow()
      .Input({131})
      .Narrow()
      .Input({131})
      .Input({})
      .Range(0.001, 0.01)
      .Bytes({})
      .Values({1})
      .Int({2}, 0, 100, DType::kInt64);
  s.Case("velocity")
      .Input({4})
      .Input({5})
      .Input({4})
      .Input({})
      .Bytes({})
      .Fails("input 1 \"velocity\" [5]: expected shape [4]");
}

}  // namespace

SNUG_OPS(momentum_update) {
  return {{.name = "momentum_update",
           .doc = "velocity = momentum velocity + grad + weight_decay param; param -= lr velocity",
           .inputs = {{"param", PortType::kKept},
                      {"velocity", PortType::kKept},
                      {"grad"},
                      {"lr", PortType::kFloat32},
                      {"gate", PortType::kBytes},
                      kRoundingPort},
           .outputs = {},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMutates, 0, 0}, {Alias::Kind::kMutates, 0, 1}},
           .kernels = {Plain(UpdateCpu),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareUpdateCuda<proto::Update>),
                        .run = SNUG_IF_CUDA(Alone<MomentumUpdateCuda>),
                        .together = SNUG_IF_CUDA(MomentumUpdateCuda)}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::momentum_update
