#include "ops/kernels/matmul/node.h"

#include <utility>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernels/activation/in_place.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/gemm.h"
#include "ops/kernels/matmul/rows.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/elementwise.h"
#include "ops/math/functions.h"
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
    const GemmCall<T> call = CallOf<T>(k, node);
    Gemm(k.threads(), call);
    if (node.sums_a) {
      Reduce<SumOp>(k.threads(), PlanSumToShape(k.input_type(node.a), k.output_type(1)), k.input<T>(node.a),
                    k.output<T>(1));
    }
    WithGradientOf(node.slope, [&](auto gradient) {
      Map(k.threads(), k.output_type(0).num_elements(), gradient, call.c, call.slope_at, static_cast<const T*>(call.c));
    });
    if (node.gelu) {
      Map(k.threads(), k.output_type(0).num_elements(), functions::GeluByTanh(), k.output<T>(1),
          static_cast<const T*>(call.c));
    }
    ActivateInPlace(k.threads(), k.output_type(0).num_elements(), node.activation, call.c);
    return absl::OkStatus();
  });
}

}  // namespace

std::vector<KernelRow> MatMulKernels(DescribeMatMul describe, bool by_weights) {
  std::vector<KernelRow> rows;
  if (by_weights) rows.push_back(PanelsMatMulRow(describe));
  rows.push_back(OwnMatMulRow(describe));
#if SNUG_HAS_ONEDNN
  rows.push_back(OneDnnMatMulRow(describe));
#endif
  rows.push_back(Plain([describe](const KernelContext& k) { return RunPlainMatMul(k, describe(k.types())); }));
#if SNUG_HAS_CUDA
  rows.push_back(SmallCudaMatMulRow(describe));
  rows.push_back(CublasMatMulRow(describe));
  rows.push_back(OwnCudaMatMulRow(describe));
#endif
  return rows;
}

std::vector<KernelRow> CudaFusedMatMulKernels(DescribeMatMul describe) {
  std::vector<KernelRow> rows = {
      Plain([describe](const KernelContext& k) { return RunPlainMatMul(k, describe(k.types())); })};
#if SNUG_HAS_CUDA
  rows.push_back(SmallCudaMatMulRow(describe));
  rows.push_back(CublasMatMulRow(describe));
  rows.push_back(OwnCudaMatMulRow(describe));
#endif
  return rows;
}

std::vector<KernelRow> MatMulKernelsWithSlope(DescribeMatMul describe, bool on_cuda) {
  const auto plain = Plain([describe](const KernelContext& k) { return RunPlainMatMul(k, describe(k.types())); });
  std::vector<KernelRow> rows = {OwnMatMulRow(describe)};
  if (!on_cuda) {
    rows.push_back(plain);
    return rows;
  }
  for (KernelRow& row : CudaFusedMatMulKernels(describe)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace snug::core
