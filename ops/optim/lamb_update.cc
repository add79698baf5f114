// lamb_direction, lamb_update: LAMB (You et al. 2020, algorithm 2, with the norms themselves as phi). Between the two
// stand the norms of the parameter and of the direction, which scale the step.
#include <absl/strings/str_cat.h>

#include <cmath>
#include <type_traits>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/random_state.h"
#include "ops/op_def.h"
#include "ops/optim/update.h"
#include "ops/optim/update_numbers.h"
#include "ops/optim/updates_cuda.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::lamb_update {
namespace {

using proto::ParseOptions;

absl::Status CheckLike(const InferContext& c, int i, DType dtype, const Shape& shape) {
  if (c.input(i).dtype != dtype) {
    return c.InputError(i,
                        absl::StrCat("expected ", Name(dtype), " like the parameter, found ", Name(c.input(i).dtype)));
  }
  return c.CheckShape(i, shape);
}

absl::Status InferDirection(InferContext& c) {
  const DType dtype = c.input(0).dtype;
  SNUG_RETURN_IF_ERROR(CheckParameter(c));
  for (const int slot : {1, 2}) SNUG_RETURN_IF_ERROR(CheckSlot(c, slot));
  SNUG_RETURN_IF_ERROR(c.CheckShape(3, c.shape(0)));
  SNUG_RETURN_IF_ERROR(CheckRandomState(c, 4));
  SNUG_RETURN_IF_ERROR(c.CheckShape(5, Shape()));
  c.SetOutput(0, ComputedIn(dtype), c.shape(0));
  return absl::OkStatus();
}

absl::Status InferUpdate(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckParameter(c));
  const DType dtype = ComputedIn(c.input(0).dtype);
  SNUG_RETURN_IF_ERROR(CheckLike(c, 1, dtype, c.shape(0)));
  for (const int number : {2, 3, 4}) SNUG_RETURN_IF_ERROR(CheckLike(c, number, dtype, Shape()));
  SNUG_RETURN_IF_ERROR(c.CheckShape(5, Shape()));
  return CheckRounding(c, /*kept=*/1, 6);
}

// P is what the slots are kept in, or Narrow; the parameter is of type Read.
template <class P, class Read, class G>
void Direction(const KernelContext& k) {
  using T = Accumulator<P>;
  const auto& options = k.options<proto::Update>();
  const double step = static_cast<double>(k.input<int64_t>(4)[1] + 1);
  const T beta1 = static_cast<T>(options.beta1());
  const T beta2 = static_cast<T>(options.beta2());
  const T rest1 = static_cast<T>(1 - options.beta1());
  const T rest2 = static_cast<T>(1 - options.beta2());
  const T correction1 = static_cast<T>(1 - std::pow(options.beta1(), step));
  const T correction2 = static_cast<T>(1 - std::pow(options.beta2(), step));
  const T epsilon = static_cast<T>(options.epsilon());
  const T decay = static_cast<T>(options.weight_decay());
  const bool open = GateIsOpen(k);
  const Read* p = k.input<Read>(0);
  const G* g = k.input<G>(3);
  T* direction = k.output<T>(0);
  const auto update = [=](int64_t i, T& m, T& v) SNUG_LAMBDA {
    const T grad = static_cast<T>(g[i]);
    const T first = beta1 * m + rest1 * grad;
    const T second = beta2 * v + rest2 * grad * grad;
    m = open ? first : m;
    v = open ? second : v;
    direction[i] = first / correction1 / (std::sqrt(second / correction2) + epsilon) + decay * static_cast<T>(p[i]);
  };
  UpdateVariables<2, P>(k, 1, /*squares=*/0b100, update, /*writes=*/open);
}

absl::Status DirectionCpu(const KernelContext& k) {
  return DispatchKept(k, /*slots=*/2, [&](auto zero, auto grad_zero) {
    using P = decltype(zero);
    using G = decltype(grad_zero);
    if constexpr (!std::is_same_v<P, Narrow>) {
      Direction<P, P, G>(k);
    } else if (k.input_type(0).dtype == DType::kBFloat16) {
      Direction<P, BFloat16, G>(k);
    } else {
      Direction<P, float, G>(k);
    }
    return absl::OkStatus();
  });
}

absl::Status UpdateCpu(const KernelContext& k) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  return DispatchKept(k, /*slots=*/0, [&](auto zero, auto) {
    using P = decltype(zero);
    using T = Accumulator<P>;
    const T* direction = k.input<T>(1);
    const T size = *k.input<T>(2);
    const T change = *k.input<T>(3);
    const T lr = static_cast<T>(static_cast<double>(*k.input<T>(4)) * k.options<proto::Update>().lr_mult());
    // A change of the smallest numbers there are may be too small to be divided by.
    const T ratio = change > T(0) ? size / change : T(0);
    const T scale = ratio > T(0) && std::isfinite(ratio) ? lr * ratio : lr;
    UpdateVariables<1, P>(k, 0, /*squares=*/0, [=](int64_t i, T& p) SNUG_LAMBDA { p -= scale * direction[i]; });
    return absl::OkStatus();
  });
}

void DirectionSamples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const char* options, const Shape& shape, double step, double gate) {
    s.Case(name)
        .With(ParseOptions<proto::Update>(options))
        .Input(shape)
        .Input(shape)
        .Input(shape)
        .Range(0.1, 1)
        .Input(shape)
        .Int({2}, 0, 100, DType::kInt64)
        .Values({1, step})
        .Bytes({})
        .Values({gate});
  };
  with("first_step", "beta1: 0.9 beta2: 0.999 epsilon: 1e-6", {5, 7}, 0, 1);
  with("decay", "beta1: 0.8 beta2: 0.99 epsilon: 1e-6 weight_decay: 0.1", {131}, 9, 1);
  with("gate_closed", "beta1: 0.9 beta2: 0.999 epsilon: 1e-6", {9}, 3, 0);
  s.Case("known")  // from the paper's formulas
      .With(ParseOptions<proto::Update>("beta1: 0.9 beta2: 0.999 epsilon: 1e-6 weight_decay: 0.1"))
      .Input({2})
      .Values({1, -2})
      .Input({2})
      .Values({0.1, -0.2})
      .Input({2})
      .Values({0.01, 0.04})
      .Input({2})
      .Values({0.5, 0.25})
      .Int({2}, 0, 100, DType::kInt64)
      .Values({1, 9})
      .Bytes({})
      .Values({1})
      .Expect(0, {0.3119363350552754, -0.31868809676710785})
      .ExpectMutated(1, {0.14, -0.15500000000000003})
      .ExpectMutated(2, {0.01024, 0.0400225});
  s.Case("kept_in_bfloat16")
      .With(ParseOptions<proto::Update>("beta1: 0.9 beta2: 0.999 epsilon: 1e-6 weight_decay: 0.1"))
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Narrow()
      .Range(0.1, 1)
      .Input({3, 1031})
      .Int({2}, 0, 100, DType::kInt64)
      .Bytes({})
      .Values({1});
  s.Case("slot")
      .Input({4})
      .Input({4})
      .Input({2})
      .Input({4})
      .Int({2}, 0, 9, DType::kInt64)
      .Bytes({})
      .Fails("input 2 \"v\" [2]: expected shape [4]");
}

void UpdateSamples(SampleBuilder& s) {
  const auto with = [&s](const char* name, double size, double change, double gate) -> Sample& {
    return s.Case(name)
        .With(ParseOptions<proto::Update>("lr_mult: 2"))
        .Input({2})
        .Values({1, -2})
        .Input({2})
        .Values({3, 4})
        .Input({})
        .Values({size})
        .Input({})
        .Values({change})
        .Input({})
        .Values({0.25})
        .Bytes({})
        .Values({gate});
  };
  with("known", 2, 5, 1).ExpectMutated(0, {0.4, -2.8});
  with("no_size", 0, 5, 1).ExpectMutated(0, {-0.5, -4});
  with("no_change", 2, 0, 1).ExpectMutated(0, {-0.5, -4});
  with("gate_closed", 2, 5, 0).ExpectMutated(0, {1, -2});
  s.Case("some")
      .Input({5, 7})
      .Input({5, 7})
      .Input({})
      .Range(1, 2)
      .Input({})
      .Range(1, 2)
      .Input({})
      .Range(0.001, 0.01)
      .Bytes({})
      .Values({1});
  s.Case("kept_in_bfloat16")
      .Input({3, 1031})
      .Narrow()
      .Input({3, 1031})
      .Input({})
      .Range(1, 2)
      .Input({})
      .Range(1, 2)
      .Input({})
      .Range(0.001, 0.01)
      .Bytes({})
      .Values({1})
      .Int({2}, 0, 100, DType::kInt64);
  s.Case("shape").Input({4}).Input({5}).Input({}).Input({}).Input({}).Bytes({}).Fails(
      "input 1 \"direction\" [5]: expected shape [4]");
}

}  // namespace

SNUG_OPS(lamb_update) {
  return {
      {.name = "lamb_direction",
       .doc =
           "m = beta1 m + (1 - beta1) grad; v = beta2 v + (1 - beta2) grad^2; direction = m' / (sqrt(v') + epsilon) + "
           "weight_decay param, ' with the bias corrected",
       .inputs = {{"param", PortType::kKept},
                  {"m", PortType::kKept},
                  {"v", PortType::kKept},
                  {"grad"},
                  {"state", PortType::kInteger},
                  {"gate", PortType::kBytes}},
       .outputs = {{"direction", PortType::kFloat32}},
       .infer = InferDirection,
       .aliases = {{Alias::Kind::kMutates, 0, 1}, {Alias::Kind::kMutates, 0, 2}, {Alias::Kind::kMayShare, 0, 3}},
       .kernels = {Plain(DirectionCpu),
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA(PrepareUpdateCuda<proto::Update>),
                    .run = SNUG_IF_CUDA(LambDirectionCuda)}},
       .samples = DirectionSamples},
      {.name = "lamb_update",
       .doc = "param -= lr size / change direction, size and change being the norms of param and direction",
       .inputs = {{"param", PortType::kKept},
                  {"direction", PortType::kFloat32},
                  {"size", PortType::kFloat32},
                  {"change", PortType::kFloat32},
                  {"lr", PortType::kFloat32},
                  {"gate", PortType::kBytes},
                  kRoundingPort},
       .outputs = {},
       .infer = InferUpdate,
       .aliases = {{Alias::Kind::kMutates, 0, 0}},
       .kernels = {Plain(UpdateCpu),
                   {.device = kOnCuda,
                    .name = "own",
                    .prepare = SNUG_IF_CUDA(PrepareUpdateCuda<proto::Update>),
                    .run = SNUG_IF_CUDA(LambUpdateCuda)}},
       .samples = UpdateSamples}};
}

}  // namespace snug::core::ops::lamb_update
