#include "ops/kernels/matmul/node.h"

#include <array>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernels/matmul/gemm.h"
#include "ops/kit/dispatch.h"
#if SNUG_HAS_ONEDNN
#include "ops/kernels/matmul/onednn.h"
#include "ops/kernels/matmul/onednn_bfloat16.h"
#endif
#if SNUG_HAS_CUDA
#include "ops/kernels/matmul/cuda.h"
#endif

namespace snug::core {
double MultiplyAdds(const MatMulNode& node) {
  return static_cast<double>(node.batch.num_elements()) * static_cast<double>(node.m) * static_cast<double>(node.n) *
         static_cast<double>(node.k);
}

namespace {

absl::Status RunPlainMatMul(const KernelContext& k, const MatMulNode& node) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    GemmCall<T> call;
    call.m = node.m;
    call.n = node.n;
    call.k = node.k;
    call.a = {k.input<T>(node.a), node.transpose_a ? 1 : node.k, node.transpose_a ? node.m : 1};
    call.b = {k.input<T>(node.b), node.transpose_b ? 1 : node.n, node.transpose_b ? node.k : 1};
    call.bias = node.bias < 0 ? nullptr : k.input<T>(node.bias);
    call.c = k.output<T>(0);
    call.batch = node.batch;
    call.a_batch = node.a_batch;
    call.b_batch = node.b_batch;
    Gemm(k.threads(), call);
    if (node.activation != Activation::kIdentity) {
      constexpr int64_t kChunk = 1 << 13;
      ParallelFor(k.threads(), k.output_type(0).num_elements(), kChunk, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          call.c[i] = static_cast<T>(Activate(node.activation, static_cast<Accumulator<T>>(call.c[i])));
        }
      });
    }
    return absl::OkStatus();
  });
}

}  // namespace

#if SNUG_HAS_ONEDNN
namespace {

constexpr absl::string_view kLoops = "loops";  // our own loops, which need no setup

absl::Status PrepareOneDnnMatMul(PrepareContext& c, const MatMulNode& node) {
  if (onednn::ComputesInFloat32(c)) return absl::OkStatus();
  const DType dtype = c.types().output(0).dtype;
  if (c.choice() == kLoops) {
    c.Decline(ByDesign("the tuning asks for our own loops"));
    return absl::OkStatus();
  }
  const Layout& b_layout = c.types().input(node.b).layout;
  const absl::StatusOr<onednn::MatMulKernel> made =
      onednn::MakeMatMul(node, dtype, b_layout, c.threads(), onednn::ChosenImplementation(c));
  if (onednn::Declines(c, made.status())) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(made.status());
  if (made->kernel == nullptr) {
    c.WantInputLayout(node.b, made->b);
    return absl::OkStatus();
  }
  c.SetWorkspaceBytes(made->kernel->workspace_bytes());
  c.SetKernel(made->kernel);
  return absl::OkStatus();
}

// Lists the library's other implementations, and our own loops.
absl::StatusOr<std::vector<std::string>> OneDnnMatMulVariants(const MatMulNode& node, DType dtype, int threads) {
  if (!onednn::Supports(dtype)) return std::vector<std::string>();
  SNUG_ASSIGN_OR_RETURN(std::vector<std::string> names, onednn::MatMulImplementations(node, dtype, threads));
  names.emplace_back(kLoops);
  SNUG_RETURN_IF_ERROR(
      onednn::OfferOtherWay(dtype, onednn::MakeMatMul(node, dtype, Layout::Plain(), threads).status(), names));
  return names;
}

absl::Status RunOneDnnMatMul(const KernelContext& k, const MatMulNode& node) {
  std::array<const void*, 4> arguments = {k.input<void>(node.a), k.input<void>(node.b)};
  size_t count = 2;
  if (node.bias >= 0) arguments[count++] = k.input<void>(node.bias);
  arguments[count++] = k.output<void>(0);
  return k.prepared<onednn::Kernel>().Run({arguments.data(), count}, k.workspace());
}
KernelRow OneDnnMatMulRow(DescribeMatMul describe) {
  return {.name = "onednn",
          .library = "oneDNN",
          .serves = NotInDouble,
          .prepare = [describe](PrepareContext& c) { return PrepareOneDnnMatMul(c, describe(c.types())); },
          .variants =
              [describe](const PrepareContext& c) {
                return OneDnnMatMulVariants(describe(c.types()), c.types().output(0).dtype, c.threads());
              },
          .run = [describe](const KernelContext& k) { return RunOneDnnMatMul(k, describe(k.types())); }};
}

}  // namespace
#endif

std::vector<KernelRow> MatMulKernels(DescribeMatMul describe) {
  std::vector<KernelRow> rows;
#if SNUG_HAS_ONEDNN
  rows.push_back(OneDnnMatMulRow(describe));
#endif
  rows.push_back(Plain([describe](const KernelContext& k) { return RunPlainMatMul(k, describe(k.types())); }));
#if SNUG_HAS_CUDA
  rows.push_back(CublasMatMulRow(describe));
  rows.push_back(OwnCudaMatMulRow(describe));
#endif
  return rows;
}

}  // namespace snug::core
