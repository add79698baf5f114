// Matrix products by our own CUDA kernel (cuda_gemm.h).
#include "engine/base/status.h"
#include "ops/kernels/matmul/cuda.h"
#include "ops/kernels/matmul/cuda_gemm.h"
#include "ops/kit/axes.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

template <class T, bool kTransposeA, bool kTransposeB>
struct MatMulProduct {
  using Value = T;
  static constexpr bool kAAlongSum = !kTransposeA, kBAlongSum = kTransposeB;
  using A = Accumulator<T>;

  // Strides of a's rows, b's columns, and of both along the sum.
  const T *all_a, *all_b, *bias;
  T* c;
  int64_t row_stride, a_step, column_stride, b_step;
  Axes a_batch, b_batch;
  int64_t m, n;
  Activation activation;

  __device__ const T* row(int64_t count, int64_t i) const { return all_a + a_batch.Offset(count) + i * row_stride; }
  __device__ const T* column(int64_t count, int64_t j) const {
    return all_b + b_batch.Offset(count) + j * column_stride;
  }
  __device__ A a(const T* from, int64_t k) const { return static_cast<A>(from[k * a_step]); }
  __device__ A b(const T* from, int64_t k) const { return static_cast<A>(from[k * b_step]); }
  __device__ void Store(int64_t count, int64_t i, int64_t j, A sum) const {
    if (bias != nullptr) sum += static_cast<A>(bias[j]);
    c[(count * m + i) * n + j] = static_cast<T>(Activate(activation, sum));
  }
};

Axes BatchAxes(const Shape& batch, const Strides& strides) {
  Axes axes;
  for (int i = 0; i < batch.rank(); ++i) axes.Append(batch[i], strides[static_cast<size_t>(i)]);
  return axes;
}

CudaGemmSize SizeOf(const MatMulNode& node) { return {node.m, node.n, node.k, node.batch.num_elements()}; }

template <class T, bool kTransposeA, bool kTransposeB>
absl::Status Run(const KernelContext& k, const MatMulNode& node) {
  const MatMulProduct<T, kTransposeA, kTransposeB> product = {.all_a = k.input<T>(node.a),
                                                              .all_b = k.input<T>(node.b),
                                                              .bias = node.bias < 0 ? nullptr : k.input<T>(node.bias),
                                                              .c = k.output<T>(0),
                                                              .row_stride = kTransposeA ? 1 : node.k,
                                                              .a_step = kTransposeA ? node.m : 1,
                                                              .column_stride = kTransposeB ? node.k : 1,
                                                              .b_step = kTransposeB ? 1 : node.n,
                                                              .a_batch = BatchAxes(node.batch, node.a_batch),
                                                              .b_batch = BatchAxes(node.batch, node.b_batch),
                                                              .m = node.m,
                                                              .n = node.n,
                                                              .activation = node.activation};
  return RunGemm(k, product, SizeOf(node));
}

}  // namespace

int64_t OwnCudaMatMulWorkspace(const MatMulNode& node, DType dtype) { return SizeOf(node).WorkspaceBytes(dtype); }

absl::Status RunOwnCudaMatMul(const KernelContext& k, const MatMulNode& node) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (node.transpose_a) return node.transpose_b ? Run<T, true, true>(k, node) : Run<T, true, false>(k, node);
    return node.transpose_b ? Run<T, false, true>(k, node) : Run<T, false, false>(k, node);
  });
}

}  // namespace snug::core
