// compare: a mask that says which integers are a number, or are above it. still_holds: a mask that says which
// conditions hold now and have held before. in_count: a mask that says which counts are above the number of a round.
// rounds_in_count: that of all rounds, one after the other. They say which rounds of a loop count, and which branch is
// taken.
#include <absl/strings/str_cat.h>

#include <cmath>

#include "engine/base/status.h"
#include "ops/control/control_cuda.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/loops.pb.h"
#include "proto/options.h"

namespace snug::core::ops::compare {
namespace {

absl::Status Infer(InferContext& c) {
  c.SetOutput(0, DType::kUint8, c.shape(0));
  return absl::OkStatus();
}

bool IsGreater(const KernelContext& k) { return k.options<proto::Compare>().kind() == proto::Compare::GREATER; }

absl::Status Kernel(const KernelContext& k) {
  return DispatchInteger(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = k.input<T>(0);
    auto* y = k.output<uint8_t>(0);
    const bool greater = IsGreater(k);
    const int64_t value = k.options<proto::Compare>().value();
    const int64_t n = k.output_type(0).num_elements();
    for (int64_t i = 0; i < n; ++i) y[i] = greater ? x[i] > value : x[i] == value;
    return absl::OkStatus();
  });
}

absl::Status CountInfer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, {}));
  c.SetOutput(0, DType::kUint8, c.shape(0));
  return absl::OkStatus();
}

absl::Status CountKernel(const KernelContext& k) {
  return DispatchInteger(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* count = k.input<T>(0);
    const int64_t round = k.input_type(1).dtype == DType::kInt64 ? *k.input<int64_t>(1) : *k.input<int32_t>(1);
    auto* y = k.output<uint8_t>(0);
    const int64_t n = k.output_type(0).num_elements();
    for (int64_t i = 0; i < n; ++i) y[i] = count[i] > round;
    return absl::OkStatus();
  });
}

absl::Status RoundsInfer(InferContext& c) {
  const int64_t rounds = c.options<proto::NormalLoop>().rounds();
  if (rounds < 1) return c.OptionError("rounds", absl::StrCat("expected at least 1, found ", rounds));
  c.SetOutput(0, DType::kUint8, Shape({rounds * c.shape(0).num_elements()}));
  return absl::OkStatus();
}

absl::Status RoundsKernel(const KernelContext& k) {
  return DispatchInteger(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto& options = k.options<proto::NormalLoop>();
    const T* count = k.input<T>(0);
    auto* y = k.output<uint8_t>(0);
    const int64_t n = k.input_type(0).num_elements();
    for (int64_t place = 0; place < options.rounds(); ++place) {
      const int64_t round = options.backwards() ? options.rounds() - 1 - place : place;
      for (int64_t i = 0; i < n; ++i) y[place * n + i] = count[i] > round;
    }
    return absl::OkStatus();
  });
}

absl::Status HoldsInfer(InferContext& c) {
  c.SetOutput(0, DType::kUint8, c.shape(0));
  if (c.has_input(1) && !(c.shape(0) == c.shape(1))) {
    return c.InputError(1, "expected the shape of input 0 \"condition\", " + c.shape(0).ToString());
  }
  return absl::OkStatus();
}

absl::Status HoldsKernel(const KernelContext& k) {
  return DispatchAny(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* condition = k.input<T>(0);
    const uint8_t* before = k.has_input(1) ? k.input<uint8_t>(1) : nullptr;
    auto* y = k.output<uint8_t>(0);
    const int64_t n = k.output_type(0).num_elements();
    for (int64_t i = 0; i < n; ++i) y[i] = condition[i] != zero && (before == nullptr || before[i] != 0);
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::Compare>;
  s.Case("equal").Int({4}, 0, 9).Values({2, 3, -2, 2}).With(options("value: 2")).Expect(0, {1, 0, 0, 1});
  s.Case("greater")
      .Int({2, 2}, 0, 9)
      .Values({2, 3, -4, 2})
      .With(options("kind: GREATER value: 2"))
      .Expect(0, {0, 1, 0, 0});
  s.Case("one").Int({}, 0, 9, DType::kInt64).With(options("kind: GREATER"));
}

void CountSamples(SampleBuilder& s) {
  s.Case("rows").Int({4}, 0, 9).Values({2, 3, 4, -1}).Int({}, 0, 9).Values({2}).Expect(0, {0, 1, 1, 0});
  s.Case("one").Int({}, 0, 9, DType::kInt64).Values({3}).Int({}, 0, 9, DType::kInt64).Values({3}).Expect(0, {0});
  s.Case("rounds").Int({2}, 0, 9).Int({2}, 0, 9).Fails("input 1 \"round\" [2]: expected shape []");
}

void RoundsSamples(SampleBuilder& s) {
  const auto options = proto::ParseOptions<proto::NormalLoop>;
  s.Case("rows").Int({2}, 0, 9).Values({0, 3}).With(options("rounds: 4")).Expect(0, {0, 1, 0, 1, 0, 1, 0, 0});
  s.Case("last_first")
      .Int({2}, 0, 9, DType::kInt64)
      .Values({-1, 3})
      .With(options("rounds: 4 backwards: true"))
      .Expect(0, {0, 0, 0, 1, 0, 1, 0, 1});
  s.Case("one").Int({}, 0, 9).Values({2}).With(options("rounds: 3")).Expect(0, {1, 1, 0});
  s.Case("many").Int({33}, 0, 99).With(options("rounds: 70"));
  s.Case("none").Int({2}, 0, 9).Fails("\"rounds\": expected at least 1, found 0");
}

void HoldsSamples(SampleBuilder& s) {
  s.Case("first").Input({4}).Values({0, -0.0, 2, NAN}).NoGradient().Absent().Expect(0, {0, 0, 1, 1});
  s.Case("later").Input({3}).Values({1, 1, 0}).NoGradient().Bytes({3}).Values({1, 0, 1}).Expect(0, {1, 0, 0});
  s.Case("integer").Int({}, 1, 2).Bytes({}).Values({1}).Expect(0, {1});
  s.Case("shape_mismatch").Input({3}).Bytes({2}).Fails("expected the shape of input 0 \"condition\", [3]");
}

}  // namespace

SNUG_OPS(compare) {
  return {{.name = "compare",
           .doc = "y = 1 where x equals `value` (or is above it), else 0",
           .inputs = {{"x", PortType::kInteger}},
           .outputs = {{"y", PortType::kBytes}},
           .infer = Infer,
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return CompareCuda(k, k.options<proto::Compare>().value(), IsGreater(k));
                       }))},
           .samples = Samples},
          // In the straight line of a loop's rounds it is compare, as their numbers are known there.
          {.name = "in_count",
           .doc = "y = 1 where the count is above the number of the round, else 0",
           .inputs = {{"count", PortType::kInteger}, {"round", PortType::kInteger}},
           .outputs = {{"y", PortType::kBytes}},
           .infer = CountInfer,
           .kernels = {Plain(CountKernel), OwnOnCuda(SNUG_IF_CUDA(InCountCuda))},
           .samples = CountSamples},
          {.name = "rounds_in_count",
           .doc = "y = 1 for each round where the count is above its number, else 0",
           .inputs = {{"count", PortType::kInteger}},
           .outputs = {{"y", PortType::kBytes}},
           .infer = RoundsInfer,
           .kernels = {Plain(RoundsKernel), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         const auto& options = k.options<proto::NormalLoop>();
                         return RoundsInCountCuda(k, options.rounds(), options.backwards());
                       }))},
           .samples = RoundsSamples},
          {.name = "still_holds",
           .doc = "y = 1 where the condition is not 0 and the mask before is not 0, else 0",
           .inputs = {{"condition", PortType::kAny}, {.name = "before", .type = PortType::kBytes, .optional = true}},
           .outputs = {{"y", PortType::kBytes}},
           .infer = HoldsInfer,
           .kernels = {Plain(HoldsKernel), OwnOnCuda(SNUG_IF_CUDA(StillHoldsCuda))},
           .samples = HoldsSamples}};
}

}  // namespace snug::core::ops::compare
