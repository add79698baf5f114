// The kernel row of matrix products by cuBLASLt.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>

#include "engine/base/status.h"
#include "engine/cuda/cublas_matmul.h"
#include "engine/cuda/cuda_launch.h"
#include "engine/cuda/cuda_libraries.h"
#include "ops/kernels/matmul/cuda.h"
#include "ops/kit/axes.h"
#include "ops/kit/cuda/finish.h"
#include "ops/kit/library_variant.h"

namespace snug::core {
namespace {

// A node's product as the library computes it, and what is left to do after it.
struct CudaMatMul {
  cuda::CublasMatMul product;
  int finish_bias = -1;
  Activation finish_activation = Activation::kIdentity;
  NodeTypes sweep;  // SweepTypes
};

// The axes of the batch as one axis. There is one only if they lie as one in both operands.
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

// Returns how much room the library gets. It is for the partial sums, in the compute type, of a few cuts of a long
// inner dimension; large results keep a device busy without cuts. It is less than the operands take, so that the plan's
// peak is elsewhere: where many values live at a time.
int64_t WorkspaceLimit(const cuda::CublasMatMul& product) {
  constexpr double kMost = 32 << 20;
  constexpr int64_t kMostCuts = 16;
  constexpr int64_t kLeastLength = 512;  // the least length of a cut
  const int64_t cuts = std::min(kMostCuts, product.k / kLeastLength);
  if (cuts < 2) return 0;
  const auto [count, m, n, k] = std::array{static_cast<double>(product.count), static_cast<double>(product.m),
                                           static_cast<double>(product.n), static_cast<double>(product.k)};
  const double wanted = count * m * n * static_cast<double>(cuts) * (product.dtype == DType::kFloat64 ? 8 : 4);
  const double operands = count * (m * k + k * n) * static_cast<double>(SizeOf(product.dtype));
  return static_cast<int64_t>(std::min({wanted, operands, kMost}));
}

// Fails with Unimplemented, and the reason, if the library does not serve the node.
absl::StatusOr<CudaMatMul> ByLibrary(const MatMulNode& node, DType dtype) {
  const std::optional<Batch> batch = OneBatch(node);
  if (!batch.has_value()) {
    return absl::UnimplementedError("it takes one batch axis, or several that lie as one in both operands");
  }
  if (!Fits(node.m) || !Fits(node.n) || !Fits(node.k) || !Fits(batch->count)) {
    return absl::UnimplementedError("it takes dimensions from 1 to 2147483647");
  }
  // The library's epilogues know neither double nor activations other than relu.
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
                                                  .relu = relu,
                                                  .sums_a = node.sums_a && !in_double,
                                                  .gelu = node.gelu && !in_double && node.n % 8 == 0},
                    .finish_bias = in_double ? node.bias : -1,
                    .finish_activation = relu ? Activation::kIdentity : node.activation};
  kernel.product.workspace_bytes = WorkspaceLimit(kernel.product);
  return kernel;
}

absl::Status PrepareCublas(PrepareContext& c, const MatMulNode& node) {
  SNUG_ASSIGN_OR_RETURN(CudaMatMul by_library, ByLibrary(node, c.types().output(0).dtype));
  auto kernel = std::make_shared<CudaMatMul>(by_library);
  SNUG_ASSIGN_OR_RETURN(const LibraryVariant variant, TakeLibraryVariant(c, /*varies=*/false));
  kernel->product.tf32 = variant.tf32;
  kernel->product.rank = variant.rank;
  kernel->sweep = SweepTypes(c.types(), node);
  c.SetWorkspaceBytes(std::max(kernel->product.workspace_bytes, SumsOfFactorWorkspace(c.types(), node)));
  c.SetKernel(std::move(kernel));
  return absl::OkStatus();
}

absl::StatusOr<cuda::CublasMatMuls*> ProductsOn(const cuda::LaunchContext& cuda) {
  return cuda::LibrariesOf(cuda.stream()).matmuls();
}

absl::Status RunCublas(const KernelContext& k, const MatMulNode& node) {
  const auto& kernel = k.prepared<CudaMatMul>();
  SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, ProductsOn(*k.cuda()));
  SNUG_ASSIGN_OR_RETURN(const bool whole,
                        products->Run(kernel.product, {.a = k.input<void>(node.a),
                                                       .b = k.input<void>(node.b),
                                                       .bias = node.bias < 0 ? nullptr : k.input<void>(node.bias),
                                                       .c = k.output<void>(0),
                                                       .sums = node.sums_a ? k.output<void>(1) : nullptr,
                                                       .gelu = node.gelu ? k.output<void>(1) : nullptr,
                                                       .workspace = k.workspace()}));
  SNUG_RETURN_IF_ERROR(FinishCuda(k, kernel.finish_bias, node.n, 1, kernel.finish_activation));
  // The library knows relu's gradient by a mask of bits only.
  return whole && node.slope_at < 0 ? absl::OkStatus() : FinishFusedCuda(k, node, kernel.sweep);
}

}  // namespace

KernelRow CublasMatMulRow(DescribeMatMul describe) {
  return {.device = kOnCuda,
          .name = "cublaslt",
          .library = "cuBLASLt",
          .serves = [describe](const NodeTypes& types) -> std::optional<NotServed> {
            const absl::Status serves = ByLibrary(describe(types), types.output(0).dtype).status();
            return serves.ok() ? std::nullopt : std::optional(Refused(std::string(serves.message())));
          },
          .prepare = [describe](PrepareContext& c) { return PrepareCublas(c, describe(c.types())); },
          .variants = [](const PrepareContext& c) { return OtherLibraryVariants(c, /*varies=*/false); },
          .settle = [](const SettleContext& s) -> absl::Status {
            SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, ProductsOn(*s.cuda));
            return products->Settle(static_cast<const CudaMatMul*>(s.prepared)->product);
          },
          .run = [describe](const KernelContext& k) { return RunCublas(k, describe(k.types())); }};
}

}  // namespace snug::core
