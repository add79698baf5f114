// Matrix products on CUDA: cuBLASLt's, or our own.
#include "ops/lib/matmul_node_cuda.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "engine/base/status.h"
#include "engine/cuda/cublas_matmul.h"
#include "engine/cuda/cuda_launch.h"
#include "engine/cuda/cuda_libraries.h"
#include "ops/lib/axes.h"
#include "ops/lib/cuda_choice.h"
#include "ops/lib/cuda_finish.h"

namespace snug {
namespace {

// What the library computes of a node, and what is left to do. Neither: our own kernel.
struct CudaMatMul {
  std::optional<cuda::CublasMatMul> product;
  int finish_bias = -1;
  Activation finish_activation = Activation::kIdentity;
};

// Axes of both operands' batches as one, where they are one in both.
struct Batch {
  int64_t count = 1, a_step = 0, b_step = 0;
};
std::optional<Batch> OneBatch(const MatMulNode& node) {
  Batch batch;
  for (int i = 0; i < node.batch.rank(); ++i) {
    const int64_t dim = node.batch[i];
    if (dim == 1) continue;
    const int64_t a = node.a_batch[static_cast<size_t>(i)];
    const int64_t b = node.b_batch[static_cast<size_t>(i)];
    if (batch.count > 1 && (batch.a_step != a * dim || batch.b_step != b * dim)) return std::nullopt;
    batch = {batch.count * dim, a, b};
  }
  return batch;
}

bool Fits(int64_t dim) { return dim > 0 && dim <= std::numeric_limits<int32_t>::max(); }

// The library gets room for the partial sums of a few cuts of a long inner dimension, in the compute type. Large
// results keep a device busy without cuts.
int64_t WorkspaceLimit(const CudaMatMul& kernel) {
  constexpr int64_t kMost = int64_t{8} << 20;
  constexpr int64_t kMostCuts = 16;
  constexpr int64_t kLeastLength = 512;  // of a cut
  const cuda::CublasMatMul& product = *kernel.product;
  const int64_t cuts = std::min(kMostCuts, product.k / kLeastLength);
  if (cuts < 2) return 0;
  const double wanted = static_cast<double>(product.count) * static_cast<double>(product.m) *
                        static_cast<double>(product.n) * static_cast<double>(cuts) *
                        (product.dtype == DType::kFloat64 ? 8 : 4);
  return static_cast<int64_t>(std::min(wanted, static_cast<double>(kMost)));
}

CudaMatMul ByLibrary(const MatMulNode& node, DType dtype) {
  const std::optional<Batch> batch = OneBatch(node);
  if (!batch.has_value() || !Fits(node.m) || !Fits(node.n) || !Fits(node.k) || !Fits(batch->count)) return {};
  // Its epilogues know neither double nor other activations.
  const bool in_double = dtype == DType::kFloat64;
  const bool relu = node.activation == Activation::kRelu && !in_double;
  CudaMatMul kernel{.product = cuda::CublasMatMul{.dtype = dtype,
                                                  .m = node.m,
                                                  .n = node.n,
                                                  .k = node.k,
                                                  .transpose_a = node.transpose_a,
                                                  .transpose_b = node.transpose_b,
                                                  .count = batch->count,
                                                  .a_step = batch->a_step,
                                                  .b_step = batch->b_step,
                                                  .bias = node.bias >= 0 && !in_double,
                                                  .relu = relu},
                    .finish_bias = in_double ? node.bias : -1,
                    .finish_activation = relu ? Activation::kIdentity : node.activation};
  kernel.product->workspace_bytes = WorkspaceLimit(kernel);
  return kernel;
}

// Unimplemented: the library is not there, or has nothing for this; that is left for whoever asked for the node.
absl::Status RunByLibrary(const KernelContext& k, const MatMulNode& node, const CudaMatMul& kernel) {
  cuda::StreamLibraries& libraries = cuda::LibrariesOf(k.cuda()->stream());
  const auto run = [&]() -> absl::Status {
    SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, libraries.matmuls());
    return products->Run(*kernel.product, {.a = k.input<void>(node.a),
                                           .b = k.input<void>(node.b),
                                           .bias = node.bias < 0 ? nullptr : k.input<void>(node.bias),
                                           .c = k.output<void>(0),
                                           .workspace = k.workspace()});
  };
  const absl::Status status = run();
  if (absl::IsUnimplemented(status)) libraries.Refused(cuda::Library::kCublasLt, status);
  SNUG_RETURN_IF_ERROR(status);
  return FinishCuda(k, kernel.finish_bias, node.n, 1, kernel.finish_activation);
}

}  // namespace

absl::Status PrepareCudaMatMul(PrepareContext& c, const MatMulNode& node) {
  const DType dtype = c.types().output(0).dtype;
  auto kernel = std::make_shared<CudaMatMul>(ByLibrary(node, dtype));
  SNUG_ASSIGN_OR_RETURN(const CudaChoice choice, ChooseCuda(c, {.serves = kernel->product.has_value()}));
  if (!choice.library) *kernel = {};
  int64_t workspace_bytes = OwnCudaMatMulWorkspace(node, dtype);
  if (kernel->product.has_value()) {
    kernel->product->tf32 = choice.tf32;
    kernel->product->rank = choice.rank;
    workspace_bytes = std::max(workspace_bytes, kernel->product->workspace_bytes);
  }
  c.SetWorkspaceBytes(workspace_bytes);
  c.SetKernel(std::move(kernel));
  return absl::OkStatus();
}

absl::Status RunCudaMatMul(const KernelContext& k, const MatMulNode& node) {
  const auto& kernel = k.prepared<CudaMatMul>();
  if (kernel.product.has_value()) {
    absl::Status status = RunByLibrary(k, node, kernel);
    if (!absl::IsUnimplemented(status)) return status;
  }
  return RunOwnCudaMatMul(k, node);
}

}  // namespace snug
