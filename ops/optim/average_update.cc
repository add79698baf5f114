// average_update: one step of a parameter's exponential moving average, as torch.optim.swa_utils.AveragedModel with
// get_ema_multi_avg_fn computes it. The average of the first step, which the random state {seed, step} tells, is the
// parameter. It is float32 also where the parameter is bfloat16: rounding would add more noise than averaging takes
// away.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/cuda/together.h"
#include "ops/kit/random_state.h"
#include "ops/op_def.h"
#include "ops/optim/update.h"
#include "ops/optim/update_numbers.h"
#include "ops/optim/updates_cuda.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::average_update {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0)));
  const DType average = c.input(0).dtype;
  if (ComputedIn(c.input(1).dtype) != average) {
    return c.InputError(1,
                        absl::StrCat("expected ", Name(average), " like the average, found ", Name(c.input(1).dtype)));
  }
  SNUG_RETURN_IF_ERROR(CheckRandomState(c, 2));
  return c.CheckShape(3, Shape());
}

absl::Status UpdateCpu(const KernelContext& k) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  return DispatchUpdate(k.input_type(0).dtype, k.input_type(1).dtype, [&](auto zero, auto param_zero) {
    using T = decltype(zero);
    T* average = k.variable<T>(0);
    const auto* p = k.input<decltype(param_zero)>(1);
    const bool first = k.input<int64_t>(2)[1] == 0;
    const T rest = static_cast<T>(1 - k.options<proto::Update>().beta2());
    ForEachElement(k.threads(), k.input_type(0).num_elements(), [=](int64_t i) SNUG_LAMBDA {
      const T now = static_cast<T>(p[i]);
      average[i] = first ? now : average[i] + rest * (now - average[i]);
    });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const Shape& shape, double step, double gate) -> Sample& {
    return s.Case(name)
        .With(ParseOptions<proto::Update>("beta2: 0.75"))
        .Input(shape)
        .Input(shape)
        .Int({2}, 0, 100, DType::kInt64)
        .Values({1, step})
        .Bytes({})
        .Values({gate});
  };
  with("first_step", {5, 7}, 0, 1);
  with("later", {131}, 9, 1);
  with("one_element", {1}, 1, 1);
  with("gate_closed", {9}, 3, 0);
  s.Case("of_bfloat16")
      .With(ParseOptions<proto::Update>("beta2: 0.75"))
      .Input({131})
      .Input({131})
      .Narrow()
      .Int({2}, 1, 100, DType::kInt64)
      .Bytes({})
      .Values({1});
  const auto known = [&s](const char* name, double step, std::vector<double> average) {
    s.Case(name)
        .With(ParseOptions<proto::Update>("beta2: 0.75"))
        .Input({2})
        .Values({1, -2})
        .Input({2})
        .Values({3, 2})
        .Int({2}, 0, 100, DType::kInt64)
        .Values({1, step})
        .Bytes({})
        .Values({1})
        .ExpectMutated(0, std::move(average));
  };
  known("known_first", 0, {3, 2});
  known("known", 1, {1.5, -1});
  s.Case("shape")
      .Input({4})
      .Input({5})
      .Int({2}, 0, 9, DType::kInt64)
      .Bytes({})
      .Fails("input 1 \"param\" [5]: expected shape [4]");
  s.Case("state").Input({4}).Input({4}).Int({2}, 0, 9).Bytes({}).Fails("expected int64[2], found int32[2]");
}

}  // namespace

SNUG_OPS(average_update) {
  return {{.name = "average_update",
           .doc = "average = decay average + (1 - decay) param; in the first step it is param",
           .inputs = {{"average", PortType::kFloat32},
                      {"param", PortType::kKept},
                      {"state", PortType::kInteger},
                      {"gate", PortType::kBytes}},
           .outputs = {},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMutates, 0, 0}},
           .kernels = {Plain(UpdateCpu),
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareUpdateCuda<proto::Update>),
                        .run = SNUG_IF_CUDA(Alone<AverageUpdateCuda>),
                        .together = SNUG_IF_CUDA(AverageUpdateCuda)}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::average_update
