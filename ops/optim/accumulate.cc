// accumulate and accumulate_mean add up what the micro-batches of a step contribute. All but the last one add to a sum;
// the last one takes the mean of the sum and its own part, and leaves the sum empty for the next step.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
#include "ops/op_def.h"
#include "ops/optim/update.h"
#include "ops/optim/updates_cuda.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::accumulate {
namespace {

using proto::ParseOptions;

// A sum is float32 also in a bfloat16 network.
absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, Shape()));
  const DType sum = c.input(0).dtype;
  const DType found = c.input(1).dtype;
  if (found == sum || (sum == DType::kFloat32 && found == DType::kBFloat16)) return absl::OkStatus();
  return c.InputError(1, absl::StrCat("expected ", Name(sum), " like the sum, found ", Name(found)));
}

absl::Status InferMean(InferContext& c) {
  SNUG_RETURN_IF_ERROR(Infer(c));
  const int64_t count = c.options<proto::Accumulate>().count();
  if (count < 1) return c.OptionError("count", absl::StrCat("expected at least 1, found ", count));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status AccumulateCpu(const KernelContext& k) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  return DispatchUpdate(k.input_type(0).dtype, k.input_type(1).dtype, [&](auto zero, auto part_zero) {
    using T = decltype(zero);
    T* sum = k.variable<T>(0);
    const auto* part = k.input<decltype(part_zero)>(1);
    ForEachElement(k.threads(), k.input_type(0).num_elements(),
                   [=](int64_t i) SNUG_LAMBDA { sum[i] += static_cast<T>(part[i]); });
    return absl::OkStatus();
  });
}

absl::Status MeanCpu(const KernelContext& k) {
  return DispatchUpdate(k.input_type(0).dtype, k.input_type(1).dtype, [&](auto zero, auto part_zero) {
    using T = decltype(zero);
    T* sum = k.variable<T>(0);
    const auto* part = k.input<decltype(part_zero)>(1);
    T* mean = k.output<T>(0);
    const T count = static_cast<T>(k.options<proto::Accumulate>().count());
    const bool empties = GateIsOpen(k);
    ForEachElement(k.threads(), k.input_type(0).num_elements(), [=](int64_t i) SNUG_LAMBDA {
      mean[i] = (sum[i] + static_cast<T>(part[i])) / count;
      sum[i] = empties ? T(0) : sum[i];
    });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  s.Case("some").Input({5, 7}).Input({5, 7}).Bytes({}).Values({1});
  s.Case("many").Input({3, 5, 1031}).Input({3, 5, 1031}).Bytes({}).Values({1});
  s.Case("whole_packs").Input({5, 32}).Input({5, 32}).Bytes({}).Values({1});
  s.Case("gate_closed").Input({2}).Values({1, 2}).Input({2}).Bytes({}).Values({0}).ExpectMutated(0, {1, 2});
  s.Case("known").Input({2}).Values({1, 2}).Input({2}).Values({3, 5}).Bytes({}).Values({1}).ExpectMutated(0, {4, 7});
  s.Case("shape").Input({4}).Input({5}).Bytes({}).Fails("input 1 \"x\" [5]: expected shape [4]");
  s.Case("gate").Input({4}).Input({4}).Bytes({2}).Fails("input 2 \"gate\" [2]: expected shape []");
}

void MeanSamples(SampleBuilder& s) {
  const auto options = ParseOptions<proto::Accumulate>("count: 4");
  s.Case("some").With(options).Input({5, 7}).Input({5, 7}).Bytes({}).Values({1});
  s.Case("whole_packs").With(options).Input({5, 32}).Input({5, 32}).Bytes({}).Values({1});
  s.Case("many").With(options).Input({3, 5, 1031}).Input({3, 5, 1031}).Bytes({}).Values({1});
  s.Case("known")
      .With(options)
      .Input({2})
      .Values({1, 2})
      .Input({2})
      .Values({3, 5})
      .Bytes({})
      .Values({1})
      .Expect(0, {1, 1.75})
      .ExpectMutated(0, {0, 0});
  s.Case("gate_closed")
      .With(options)
      .Input({2})
      .Values({1, 2})
      .Input({2})
      .Bytes({})
      .Values({0})
      .ExpectMutated(0, {1, 2});
  s.Case("shape").With(options).Input({4}).Input({5}).Bytes({}).Fails("input 1 \"x\" [5]: expected shape [4]");
  s.Case("count")
      .With(ParseOptions<proto::Accumulate>("count: 0"))
      .Input({4})
      .Input({4})
      .Bytes({})
      .Fails("option \"count\": expected at least 1, found 0");
}

}  // namespace

SNUG_OPS(accumulate) {
  return {{.name = "accumulate",
           .doc = "sum += x",
           .inputs = {{"sum", PortType::kFloat32}, {"x"}, {"gate", PortType::kBytes}},
           .outputs = {},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMutates, 0, 0}},
           .cost = FlopsPerElement<1, 1>,
           .kernels = {Plain(AccumulateCpu), OwnOnCuda(SNUG_IF_CUDA(AccumulateCuda))},
           .samples = Samples},
          {.name = "accumulate_mean",
           .doc = "y = (sum + x) / count; sum = 0",
           .inputs = {{"sum", PortType::kFloat32}, {"x"}, {"gate", PortType::kBytes}},
           .outputs = {{"y", PortType::kFloat32}},
           .infer = InferMean,
           .aliases = {{Alias::Kind::kMutates, 0, 0}, {Alias::Kind::kMayShare, 0, 1}},
           .cost = FlopsPerElement<1, 1>,
           .kernels = {Plain(MeanCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return AccumulateMeanCuda(k, k.options<proto::Accumulate>().count());
                       }))},
           .samples = MeanSamples}};
}

}  // namespace snug::core::ops::accumulate
