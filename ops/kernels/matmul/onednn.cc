#include "ops/kernels/matmul/onednn.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/kernels/activation/onednn_activated.h"
#include "ops/kit/onednn_internal.h"

namespace snug::core::onednn {
namespace {

using dnnl::memory;

// Describes the [rows, columns] of an operand in each product, seen transposed where asked. A broadcast batch axis
// (stride 0) gets length 1 and the stride that keeps the description dense, because the fast kernels want it so.
memory::desc Operand(const MatMulNode& node, const Strides& batch_strides, int64_t rows, int64_t columns,
                     bool transposed, DType dtype) {
  const size_t rank = static_cast<size_t>(node.batch.rank());
  memory::dims dims(rank + 2), strides(rank + 2);
  dims[rank] = rows;
  dims[rank + 1] = columns;
  strides[rank] = transposed ? 1 : columns;
  strides[rank + 1] = transposed ? rows : 1;
  memory::dim matrices = 1;
  for (size_t axis = rank; axis-- > 0;) {
    const bool broadcast = batch_strides[axis] == 0;
    dims[axis] = broadcast ? 1 : node.batch[static_cast<int>(axis)];
    strides[axis] = broadcast ? rows * columns * matrices : batch_strides[axis];
    matrices *= dims[axis];
  }
  return memory::desc(dims, DataType(dtype), strides);
}

// Says whether a reorder node packs b. Without it the library packs what it gets row by row at every call, which takes
// more than a quarter of the product's time with large weights, a twentieth to a tenth with small ones
// (docs/benchmarks/training.md).
bool WorthPacking(const MatMulNode& node, DType dtype) {
  constexpr int64_t kManyRows = 256;
  constexpr int64_t kManyElements = 1 << 20;
  return dtype == DType::kFloat32 && node.batch.rank() == 0 && !node.transpose_a && !node.transpose_b &&
         node.m >= kManyRows && node.k * node.n >= kManyElements;
}

// Of few rows of bfloat16 every thread packs all of b in a part of the workspace of its own. Where b is small, too, one
// thread is as fast, and takes one part.
int ThreadsFor(const MatMulNode& node, DType dtype, int threads) {
  constexpr int64_t kFewRows = 16, kFewElements = 1 << 17;
  const bool small = dtype == DType::kBFloat16 && node.m <= kFewRows && node.k * node.n <= kFewElements;
  return small && node.batch.num_elements() == 1 ? 1 : threads;
}

// The product as the library describes it, with the list of its implementations.
struct MatMul {
  memory::desc a, b, c, bias;
  dnnl::matmul::primitive_desc pd;

  MatMul(const MatMulNode& node, DType dtype)
      : a(Operand(node, node.a_batch, node.m, node.k, node.transpose_a, dtype)),
        b(WorthPacking(node, dtype) ? DescribeAny({node.k, node.n}, dtype)
                                    : Operand(node, node.b_batch, node.k, node.n, node.transpose_b, dtype)) {
    memory::dims dims = Dims(node.batch);
    if (node.batch.rank() == 0) dims.clear();
    dims.insert(dims.end(), {node.m, node.n});
    c = DescribePlain(dims, dtype);
    if (node.bias >= 0) {
      memory::dims bias_dims(dims.size(), 1);
      bias_dims.back() = node.n;
      bias = DescribePlain(bias_dims, dtype);
    }
    const dnnl::primitive_attr attributes = UserScratchpad();
#if DNNL_VERSION_MAJOR >= 3
    pd = dnnl::matmul::primitive_desc(CpuEngine(), a, b, bias, c, attributes);
#else
    pd = dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, bias, c), attributes, CpuEngine());
#endif
  }

  absl::string_view name() const { return pd.impl_info_str(); }
};

bool Fits(const MatMulNode& node) { return DimsFit(node.batch.num_elements(), node.m, node.k, node.n); }

// Selects an implementation, by itself a batch-reduced one: they take their buffers from the scratchpad. The older
// "gemm" ones allocate up to megabytes at every call, so they serve only where there is nothing else ("brg" needs
// AVX-512).
absl::StatusOr<MatMul> Select(const MatMulNode& node, DType dtype, absl::string_view implementation) {
  MatMul matmul(node, dtype);
  const dnnl::matmul::primitive_desc first = matmul.pd;
  do {
    if (implementation.empty() ? absl::StartsWith(matmul.name(), "brg") : matmul.name() == implementation)
      return matmul;
  } while (matmul.pd.next_impl());
  if (!implementation.empty()) {
    return absl::UnimplementedError(absl::StrCat("oneDNN has no \"", implementation, "\" for this"));
  }
  matmul.pd = first;
  if (IsReference(matmul.name())) return absl::UnimplementedError("oneDNN has only a reference kernel for this");
  return matmul;
}

}  // namespace

absl::StatusOr<MatMulKernel> MakeMatMul(const MatMulNode& node, DType dtype, const Layout& b_layout, int all_threads,
                                        absl::string_view implementation) {
  return Guard([&]() -> absl::StatusOr<MatMulKernel> {
    SNUG_RETURN_IF_ERROR(CheckSupports(dtype));
    const int threads = ThreadsFor(node, dtype, all_threads);
    if (!Fits(node)) return absl::UnimplementedError("oneDNN has no such large dimensions");
    const ThreadScope scope(threads);
    SNUG_ASSIGN_OR_RETURN(const MatMul matmul, Select(node, dtype, implementation));
    const memory::desc b = matmul.pd.weights_desc();
    if (WorthPacking(node, dtype)) {
      const Layout wanted = LayoutOf(b);
      if (!(wanted == b_layout)) return MatMulKernel{.kernel = nullptr, .b = wanted};
    }
    std::vector<Argument> arguments = {{DNNL_ARG_SRC, matmul.a}, {DNNL_ARG_WEIGHTS, b}};
    if (node.bias >= 0) arguments.push_back({DNNL_ARG_BIAS, matmul.bias});
    arguments.push_back({DNNL_ARG_DST, matmul.c});
    KernelPtr kernel = MakeKernel(matmul.pd, dnnl::matmul(matmul.pd), arguments, threads);
    const int64_t count = node.batch.num_elements() * node.m * node.n;
    return MatMulKernel{.kernel = Activated(std::move(kernel), node.activation, dtype, count, threads), .b = b_layout};
  });
}

absl::StatusOr<std::vector<std::string>> MatMulImplementations(const MatMulNode& node, DType dtype, int threads) {
  std::vector<std::string> names;
  const absl::Status listed = Guard([&]() -> absl::Status {
    if (!Fits(node)) return absl::OkStatus();
    const ThreadScope scope(threads);
    SNUG_ASSIGN_OR_RETURN(const MatMul taken, Select(node, dtype, ""));
    MatMul matmul(node, dtype);
    do {
      const bool allocates = absl::StrContains(matmul.name(), "gemm");
      const std::string name(matmul.name());
      if (!IsReference(name) && !allocates && name != taken.name() && !absl::c_linear_search(names, name)) {
        names.push_back(name);
      }
    } while (matmul.pd.next_impl());
    return absl::OkStatus();
  });
  if (absl::IsUnimplemented(listed)) return std::vector<std::string>();
  SNUG_RETURN_IF_ERROR(listed);
  return names;
}

}  // namespace snug::core::onednn
