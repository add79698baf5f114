// adam_update: Adam (Kingma, Ba 2015) and AdamW (Loshchilov, Hutter 2019), in the order of operations of
// torch.optim.Adam. The step that corrects the bias comes from the random state {seed, step}, which counts from zero.
#include <cmath>

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

namespace snug::core::ops::adam_update {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) { return CheckUpdate(c, /*slots=*/2, /*counts=*/true); }

absl::Status UpdateCpu(const KernelContext& k) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  return DispatchKept(k, /*slots=*/2, [&](auto zero, auto grad_zero) {
    using P = decltype(zero);
    using T = Accumulator<P>;
    using G = decltype(grad_zero);
    const auto& options = k.options<proto::Update>();
    const G* g = k.input<G>(3);
    const double lr = static_cast<double>(*k.input<T>(4)) * options.lr_mult();
    const double step = static_cast<double>(k.input<int64_t>(5)[1] + 1);
    const T beta1 = static_cast<T>(options.beta1());
    const T beta2 = static_cast<T>(options.beta2());
    const T rest1 = static_cast<T>(1 - options.beta1());
    const T rest2 = static_cast<T>(1 - options.beta2());
    const T epsilon = static_cast<T>(options.epsilon());
    const T step_size = static_cast<T>(lr / (1 - std::pow(options.beta1(), step)));
    const T correction = static_cast<T>(std::sqrt(1 - std::pow(options.beta2(), step)));
    const bool decoupled = options.decoupled_decay();
    const T keep = static_cast<T>(decoupled ? 1 - lr * options.weight_decay() : 1);
    const T decay = static_cast<T>(decoupled ? 0 : options.weight_decay());
    UpdateVariables<3, P>(k, 0, /*squares=*/0b100, [=](int64_t i, T& p, T& m, T& v) SNUG_LAMBDA {
      const T grad = static_cast<T>(g[i]) + decay * p;
      const T first = beta1 * m + rest1 * grad;
      const T second = beta2 * v + rest2 * grad * grad;
      m = first;
      v = second;
      p = keep * p - step_size * (first / (std::sqrt(second) / correction + epsilon));
    });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const char* options, const Shape& shape, double step, double gate) {
    s.Case(name)
        .With(ParseOptions<proto::Update>(options))
        .Input(shape)
        .Input(shape)
        .Input(shape)
        .Range(0.1, 1)
        .Input(shape)
        .Input({})
        .Range(0.001, 0.01)
        .Int({2}, 0, 100, DType::kInt64)
        .Values({1, step})
        .Bytes({})
        .Values({gate});
  };
  with("first_step", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8", {5, 7}, 0, 1);
  with("decay", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1 lr_mult: 2", {131}, 9, 1);
  with("adamw", "beta1: 0.8 beta2: 0.99 epsilon: 1e-6 weight_decay: 0.1 decoupled_decay: true", {131}, 99, 1);
  with("gate_closed", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8", {9}, 3, 0);
  const auto known = [&s](const char* name, const char* options, std::vector<double> param, std::vector<double> m,
                          std::vector<double> v) {  // expects values from torch.optim
    s.Case(name)
        .With(ParseOptions<proto::Update>(options))
        .Input({2})
        .Values({1, -2})
        .Input({2})
        .Values({0.1, -0.2})
        .Input({2})
        .Values({0.01, 0.04})
        .Input({2})
        .Values({0.5, 0.25})
        .Input({})
        .Values({0.01})
        .Int({2}, 0, 100, DType::kInt64)
        .Values({1, 9})
        .Bytes({})
        .Values({1})
        .ExpectMutated(0, std::move(param))
        .ExpectMutated(1, std::move(m))
        .ExpectMutated(2, std::move(v));
  };
  known("known", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1", {0.9977413503496595, -1.99865896685293},
        {0.15, -0.175}, {0.01035, 0.0399625});
  known("known_adamw", "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1 decoupled_decay: true",
        {0.9968806345806693, -1.996813118446308}, {0.14, -0.155}, {0.01024, 0.0400225});
  s.Case("kept_in_bfloat16")
      .With(ParseOptions<proto::Update>("beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1"))
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Narrow()
      .Range(0.1, 1)
      .Input({3, 1031})
      .Input({})
      .Range(0.001, 0.01)
      .Int({2}, 0, 100, DType::kInt64)
      .Bytes({})
      .Values({1});
  s.Case("slot")
      .Input({4})
      .Input({4})
      .Input({2})
      .Input({4})
      .Input({})
      .Int({2}, 0, 9, DType::kInt64)
      .Bytes({})
      .Fails("input 2 \"v\" [2]: expected shape [4]");
  s.Case("state").Input({4}).Input({4}).Input({4}).Input({4}).Input({}).Int({2}, 0, 9).Bytes({}).Fails(
      "expected int64[2], found int32[2]");
}

}  // namespace

SNUG_OPS(adam_update) {
  return {
      {.name = "adam_update",
       .doc =
           "m = beta1 m + (1 - beta1) grad; v = beta2 v + (1 - beta2) grad^2; param -= lr m' / (sqrt(v') + epsilon), "
           "' with the bias corrected",
       .inputs = {{"param", PortType::kKept},
                  {"m", PortType::kKept},
                  {"v", PortType::kKept},
                  {"grad"},
                  {"lr", PortType::kFloat32},
                  {"state", PortType::kInteger},
                  {"gate", PortType::kBytes}},
       .outputs = {},
       .infer = Infer,
       .aliases = {{Alias::Kind::kMutates, 0, 0}, {Alias::Kind::kMutates, 0, 1}, {Alias::Kind::kMutates, 0, 2}},
       .kernels = {Plain(UpdateCpu),
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA(PrepareUpdateCuda<proto::Update>),
                    .run = SNUG_IF_CUDA(Alone<AdamUpdateCuda>),
                    .together = SNUG_IF_CUDA(AdamUpdateCuda)}},
       .samples = Samples}};
}

}  // namespace snug::core::ops::adam_update
