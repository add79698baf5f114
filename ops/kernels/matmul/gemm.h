// The plain matrix product: float32, bfloat16 (sums in float) and float64, any strides, many products in one call.
// Cache-blocked and multi-threaded over tiles of the result; needs no workspace (tiles are packed on the stack).
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/shape.h"
#include "ops/activation.h"
#include "ops/kernels/matmul/gemm_tile.h"

namespace snug::core {

// c [i, j] = sum over p of a [i, p] b [p, j], plus bias [j]. c is row-major and contiguous. The bias has the type of b,
// as both are parameters where there is one.
template <class A, class B = A, class C = A>
struct GemmCall {
  int64_t m = 0, n = 0, k = 0;
  StridedMatrix<A> a;
  StridedMatrix<B> b;
  C* c = nullptr;
  const B* bias = nullptr;  // [n]; null: no bias
  // c is multiplied by the slope that this function has at each of [m, n] numbers. Gemm() leaves that to its caller.
  SlopeOf slope = SlopeOf::kNothing;
  const C* slope_at = nullptr;

  // There is one product for each index of `batch`. The strides say how far a and b move along its axes (0: broadcast);
  // c's matrices lie one after the other.
  Shape batch = {};
  Strides a_batch = {}, b_batch = {};
};

// This is instantiated for float, BFloat16 and double.
template <class T>
void Gemm(int threads, const GemmCall<T>& call);

}  // namespace snug::core
