// global_norm: the Euclidean norm of all gradients together, for clipping. Sums of squares are kept in double, in
// chunks of fixed size that are added in order, so the bits are the same on any number of threads.
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/op_def.h"
#include "ops/optim/updates_cuda.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::global_norm {
namespace {

constexpr int64_t kChunk = 1 << 15;

int64_t Chunks(int64_t n) { return (n + kChunk - 1) / kChunk; }

absl::Status Infer(InferContext& c) {
  if (c.num_inputs() == 0) return absl::InvalidArgumentError("expected at least one gradient, found none");
  c.SetOutput(0, Float32PortType(c.input(0).dtype), Shape());
  return absl::OkStatus();
}

absl::Status Prepare(PrepareContext& c) {  // makes room for the chunks' sums of the largest gradient
  int64_t chunks = 0;
  for (const ValueType& type : c.types().inputs) chunks = std::max(chunks, Chunks(type.num_elements()));
  c.SetWorkspaceBytes(chunks * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

Cost CostOfNode(const NodeTypes& types) {
  Cost cost;
  for (const ValueType& type : types.inputs) cost.flops += 2.0 * static_cast<double>(type.num_elements());
  return cost;
}

absl::Status NormCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    double* partial = k.workspace<double>();
    double total = 0;
    for (int i = 0; i < k.num_inputs(); ++i) {
      const T* g = k.input<T>(i);
      const int64_t n = k.input_type(i).num_elements();
      ParallelFor(k.threads(), n, kChunk, [=](int64_t begin, int64_t end) {
        WithIsa([=]() SNUG_LAMBDA {
          partial[begin / kChunk] = LaneSum<double>(end - begin, [=](int64_t j) SNUG_LAMBDA {
            const double value = static_cast<double>(g[begin + j]);
            return value * value;
          });
        });
      });
      for (int64_t c = 0; c < Chunks(n); ++c) total += partial[c];
    }
    *k.output<Float32Port<T>>(0) = static_cast<Float32Port<T>>(std::sqrt(total));
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  s.Case("one").Input({5, 7});
  s.Case("several").Input({3, 100}).Input({1}).Input({2, 2, 33});
  s.Case("chunks").Input({70001}).Input({32768});
  s.Case("known").Input({2}).Values({3, 0}).Input({1}).Values({4}).Expect(0, {5});
  s.Case("none").Fails("expected at least one gradient");
}

}  // namespace

SNUG_OPS(global_norm) {
  return {{.name = "global_norm",
           .doc = "norm = sqrt(sum of squares of all elements of all gradients)",
           .inputs = {{"grads", PortType::kFloating, /*optional=*/false, /*variadic=*/true}},
           .outputs = {{"norm", PortType::kFloat32}},
           .infer = Infer,
           .cost = CostOfNode,
           .kernels = {{.name = "plain", .prepare = Prepare, .run = NormCpu},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareGlobalNormCuda),
                        .run = SNUG_IF_CUDA(GlobalNormCuda)}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::global_norm
