// fill: a value of one number throughout. The backward pass starts with it, and it stands for gradients that are zero.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/options.h"
#include "ops/math/values_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::fill {
namespace {

using proto::ParseOptions;

constexpr int64_t kChunk = 1 << 15;

absl::Status Infer(InferContext& c) {
  const proto::Fill& options = c.options<proto::Fill>();
  if (options.dtype() == proto::FLOAT) {
    return c.OptionError("dtype", "expected a definite type (FLOAT32, BFLOAT16, ...), found FLOAT");
  }
  SNUG_ASSIGN_OR_RETURN(const Shape shape, ShapeOption(options, /*allow_empty=*/true));
  c.SetOutput(0, proto::ToDType(options.dtype(), DType::kFloat32), shape);
  return absl::OkStatus();
}

Cost CostOfFill(const NodeTypes&) { return {}; }

absl::Status Kernel(const KernelContext& k) {
  return DispatchAny(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    T* y = k.output<T>(0);
    const T value = static_cast<T>(k.options<proto::Fill>().value());
    ParallelFor(k.threads(), k.output_type(0).num_elements(), kChunk,
                [=](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  s.Case("scalar").With(ParseOptions<proto::Fill>("dtype: FLOAT32 value: 1")).Expect(0, {1});
  s.Case("bfloat16").With(ParseOptions<proto::Fill>("dim: 3 dtype: BFLOAT16 value: 0.5")).Expect(0, {0.5, 0.5, 0.5});
  s.Case("integers").With(ParseOptions<proto::Fill>("dim: [2, 1] dtype: INT64 value: -3")).Expect(0, {-3, -3});
  s.Case("no_type").With(ParseOptions<proto::Fill>("dim: 2 value: 1")).Fails("option \"dtype\"");
  s.Case("negative").With(ParseOptions<proto::Fill>("dim: -2 dtype: FLOAT32")).Fails("-2");
}

}  // namespace

SNUG_OPS(fill) {
  return {{.name = "fill",
           .doc = "y = value, in the shape `dim`",
           .outputs = {{"y", PortType::kAny}},
           .infer = Infer,
           .cost = CostOfFill,
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return FillCuda(k, k.options<proto::Fill>().value());
                       }))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::fill
