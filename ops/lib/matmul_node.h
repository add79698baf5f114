// A node that is one matrix product (or a batch of them): from one description come its plain kernel, its fast kernel
// and its cost. An op brings a function from types to description, and puts the templates below into its table.
#pragma once

#include "engine/base/shape.h"
#include "ops/kernel_context.h"
#include "ops/lib/activation.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"

namespace snug {

// c [m, n] = activation(a [m, k] b [k, n] + bias [n]), for each index of `batch`.
struct MatMulNode {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a is stored [k, m]
  bool transpose_b = false;  // b is stored [n, k]
  Shape batch = {};
  Strides a_batch = {}, b_batch = {};  // elements from one matrix to the next along each axis of batch; 0: broadcast
  int a = 0, b = 1, bias = -1;         // input ports; bias -1: none. c is output 0
  Activation activation = Activation::kIdentity;
};

absl::Status RunPlainMatMul(const KernelContext& k, const MatMulNode& node);
double MultiplyAdds(const MatMulNode& node);

using DescribeMatMul = MatMulNode (*)(const NodeTypes&);

template <DescribeMatMul describe>
absl::Status PlainMatMul(const KernelContext& k) {
  return RunPlainMatMul(k, describe(k.types()));
}

// `forward`: its multiply-adds count as the model's.
template <DescribeMatMul describe, bool forward>
Cost MatMulCost(const NodeTypes& types) {
  Cost cost;
  const double multiply_adds = MultiplyAdds(describe(types));
  cost.flops = 2 * multiply_adds;
  for (int i = 0; i < types.num_inputs(); ++i) {
    if (types.has_input(i)) cost.bytes += static_cast<double>(types.input(i).size_bytes());
  }
  cost.bytes += static_cast<double>(types.output(0).size_bytes());
  if (forward) cost.multiply_adds = multiply_adds;
  return cost;
}

// On CUDA (matmul_node_cuda.cc).
absl::Status PrepareCudaMatMul(PrepareContext& c, const MatMulNode& node);
absl::Status RunCudaMatMul(const KernelContext& k, const MatMulNode& node);

template <DescribeMatMul describe>
absl::Status PrepareCuda(PrepareContext& c) {
  return PrepareCudaMatMul(c, describe(c.types()));
}
template <DescribeMatMul describe>
absl::Status RunCuda(const KernelContext& k) {
  return RunCudaMatMul(k, describe(k.types()));
}

#if SNUG_HAS_ONEDNN
absl::Status PrepareOneDnnMatMul(PrepareContext& c, const MatMulNode& node);
// The library's other implementations, and "loops": our own, which have no setup at all.
std::vector<std::string> MatMulChoices(const MatMulNode& node, DType dtype, int threads);
absl::Status RunOneDnnMatMul(const KernelContext& k, const MatMulNode& node);

template <DescribeMatMul describe>
absl::Status PrepareFast(PrepareContext& c) {
  return PrepareOneDnnMatMul(c, describe(c.types()));
}
template <DescribeMatMul describe>
absl::Status RunFast(const KernelContext& k) {
  return RunOneDnnMatMul(k, describe(k.types()));
}

template <DescribeMatMul describe>
std::vector<std::string> ListChoices(const NodeTypes& types, int threads) {
  return MatMulChoices(describe(types), types.output(0).dtype, threads);
}

template <DescribeMatMul describe>
inline constexpr PrepareFn kPrepareMatMul = PrepareFast<describe>;
template <DescribeMatMul describe>
inline constexpr ChoicesFn kMatMulChoices = ListChoices<describe>;
template <DescribeMatMul describe>
inline constexpr KernelFn kFastMatMul = RunFast<describe>;
#else
template <DescribeMatMul describe>
inline constexpr PrepareFn kPrepareMatMul = nullptr;
template <DescribeMatMul describe>
inline constexpr ChoicesFn kMatMulChoices = nullptr;
template <DescribeMatMul describe>
inline constexpr KernelFn kFastMatMul = nullptr;
#endif

}  // namespace snug
