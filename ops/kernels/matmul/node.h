// A node that is one matrix product, or a batch of them. An op brings a function from its types to this description;
// kernels and cost come from here.
#pragma once

#include <vector>

#include "engine/base/shape.h"
#include "ops/activation.h"
#include "ops/kernel_context.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"

namespace snug::core {

// Describes c [m, n] = activation(a [m, k] b [k, n] + bias [n]), for each index of `batch`.
struct MatMulNode {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a is stored [k, m]
  bool transpose_b = false;  // b is stored [n, k]
  Shape batch = {};
  Strides a_batch = {}, b_batch = {};  // how many elements lie between matrices along each axis of batch; 0: broadcast
  int a = 0, b = 1, bias = -1;         // input ports; bias is -1 where there is none, c is output 0
  Activation activation = Activation::kIdentity;
  // Output 1 [m] gets the sums over k of a, which is transposed: the gradient of a bias, if a is dy. No batch then.
  bool sums_a = false;
  // c is multiplied by the slope that a function has at this input, which is of its shape: c is the gradient of what
  // the function gave. That of relu is asked for what relu gave, that of gelu for what gelu was given.
  SlopeOf slope = SlopeOf::kNothing;
  int slope_at = -1;
  bool gelu = false;  // output 1 gets gelu (by tanh) of c
};

double MultiplyAdds(const MatMulNode& node);

using DescribeMatMul = MatMulNode (*)(const NodeTypes&);

// Returns the kernel rows of an op whose nodes are such products. `by_weights`: B may be what is packed once, and kept.
std::vector<KernelRow> MatMulKernels(DescribeMatMul describe, bool by_weights = true);
// The same where they have `sums_a` or `gelu`. Only CUDA has such nodes, so the reference is all there is on the CPU.
std::vector<KernelRow> CudaFusedMatMulKernels(DescribeMatMul describe);
// The same where they have `slope`. The CPU has our own loops for them; CUDA has relu's alone.
std::vector<KernelRow> MatMulKernelsWithSlope(DescribeMatMul describe, bool on_cuda);

// `forward` says that its multiply-adds count as the model's.
template <DescribeMatMul describe, bool forward>
Cost MatMulCost(const NodeTypes& types) {
  Cost cost;
  const double multiply_adds = MultiplyAdds(describe(types));
  cost.flops = 2 * multiply_adds;
  for (int i = 0; i < types.num_inputs(); ++i) {
    if (types.has_input(i)) cost.bytes += static_cast<double>(types.input(i).size_bytes());
  }
  for (int i = 0; i < types.num_outputs(); ++i) cost.bytes += static_cast<double>(types.output(i).size_bytes());
  if (forward) cost.multiply_adds = multiply_adds;
  return cost;
}

}  // namespace snug::core
