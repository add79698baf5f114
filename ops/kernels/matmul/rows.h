// The rows of matrix products on the processor, of which node.h makes lists, and what they have in common:
//
//   panels   our own loops on weights that are kept as panels, or packed once for all rounds of a loop (panels.h)
//   own      our own loops on matrices as they are (blocked.h, short_gemm.h) or on their pieces (split_gemm.h)
//   onednn   the library's
#pragma once

#include "ops/kernel_row.h"
#include "ops/kernels/matmul/gemm.h"
#include "ops/kernels/matmul/node.h"
#include "ops/prepare_context.h"

namespace snug::core {

KernelRow PanelsMatMulRow(DescribeMatMul describe);
KernelRow OwnMatMulRow(DescribeMatMul describe);
KernelRow OneDnnMatMulRow(DescribeMatMul describe);

// What of a node's operands and result is bfloat16.
struct NarrowTypes {
  NarrowTypes(const NodeTypes& types, const MatMulNode& node)
      : a(types.input(node.a).dtype == DType::kBFloat16),
        b(types.input(node.b).dtype == DType::kBFloat16),
        c(types.output(0).dtype == DType::kBFloat16),
        bias(node.bias < 0 ? b : types.input(node.bias).dtype == DType::kBFloat16),
        slope_at(node.slope_at < 0 ? c : types.input(node.slope_at).dtype == DType::kBFloat16) {}
  bool any() const { return a || b || c || bias || slope_at; }
  // Says whether there is a product of these types.
  bool served() const { return bias == b && slope_at == c && (!any() || (a && (b || c))); }
  bool a, b, c, bias, slope_at;
};

// Says whether our own loops leave a product to the library, if there is one.
bool IsLeftToLibrary(const NodeTypes& types, const MatMulNode& node);
// Says whether it is put together from pieces.
bool IsSplitMatMul(const PrepareContext& c, const MatMulNode& node);

template <class A, class B = A, class C = A>
GemmCall<A, B, C> CallOf(const KernelContext& k, const MatMulNode& node) {
  return {.m = node.m,
          .n = node.n,
          .k = node.k,
          .a = {k.input<A>(node.a), node.transpose_a ? 1 : node.k, node.transpose_a ? node.m : 1},
          .b = {k.input<B>(node.b), node.transpose_b ? 1 : node.n, node.transpose_b ? node.k : 1},
          .c = k.output<C>(0),
          .bias = node.bias < 0 ? nullptr : k.input<B>(node.bias),
          .slope = node.slope,
          .slope_at = node.slope_at < 0 ? nullptr : k.input<C>(node.slope_at),
          .batch = node.batch,
          .a_batch = node.a_batch,
          .b_batch = node.b_batch};
}

}  // namespace snug::core
