// all_finite: 1 if no element of any input is infinite or NaN. It is the gate of all updates: a step whose loss is not
// finite changes nothing.
#include <absl/strings/str_cat.h>

#include <atomic>
#include <limits>

#include "engine/base/parallel.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/op_def.h"
#include "ops/optim/gradients_cuda.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::all_finite {
namespace {

constexpr int64_t kChunk = 1 << 15;

absl::Status Infer(InferContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!IsFloating(c.input(i).dtype)) {
      return c.InputError(i, absl::StrCat("expected floating-point values, found ", c.input(i).ToString()));
    }
  }
  c.SetOutput(0, DType::kUint8, Shape());
  return absl::OkStatus();
}

Cost CostOfTest(const NodeTypes& types) {
  Cost cost;
  for (const ValueType& input : types.inputs) cost.flops += static_cast<double>(input.num_elements());
  return cost;
}

template <class T>
bool IsFinite(const T* x, int64_t n, int threads) {
  using A = Accumulator<T>;
  std::atomic<bool> finite = true;
  ParallelFor(threads, n, kChunk, [x, &finite](int64_t begin, int64_t end) {
    int32_t bad = 0;
    WithIsa([x, begin, end, &bad]() SNUG_LAMBDA {
      for (int64_t i = begin; i < end; ++i) {
        const A value = static_cast<A>(x[i]);
        const A magnitude = value < A(0) ? -value : value;
        bad += magnitude <= std::numeric_limits<A>::max() ? 0 : 1;  // a NaN compares false
      }
    });
    if (bad != 0) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

absl::Status Kernel(const KernelContext& k) {
  bool finite = true;
  for (int i = 0; i < k.num_inputs(); ++i) {
    SNUG_RETURN_IF_ERROR(DispatchFloating(k.input_type(i).dtype, [&](auto zero) {
      using T = decltype(zero);
      finite = finite && IsFinite(k.input<T>(i), k.input_type(i).num_elements(), k.threads());
      return absl::OkStatus();
    }));
  }
  *k.output<uint8_t>(0) = finite ? 1 : 0;
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  s.Case("finite").Input({}).NoGradient().Input({37}).NoGradient().Expect(0, {1});
  s.Case("nan").Input({}).NoGradient().Input({3}).Values({1, kNan, 2}).NoGradient().Expect(0, {0});
  s.Case("infinite").Input({3}).Values({1, 2, -kInfinity}).NoGradient().Input({}).NoGradient().Expect(0, {0});
  s.Case("whole_packs")
      .Input({16})
      .Values({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -kInfinity, 13, 14, 15, 16})
      .NoGradient()
      .Expect(0, {0});
  s.Case("large").Input({5000}).NoGradient().Expect(0, {1});
  s.Case("small_then_nan").Input({}).NoGradient().Input({2}).Values({kNan, 1}).NoGradient().Expect(0, {0});
  s.Case("integers").Int({3}, 0, 5).Fails("expected floating-point values, found int32[3]");
}

}  // namespace

SNUG_OPS(all_finite) {
  return {{.name = "all_finite",
           .doc = "y = 1 if every element of every x is finite, else 0",
           .inputs = {{.name = "x", .type = PortType::kAny, .variadic = true}},
           .outputs = {{"y", PortType::kBytes}},
           .infer = Infer,
           .cost = CostOfTest,
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA(AllFiniteCuda))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::all_finite
