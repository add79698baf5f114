// What a single thread, and a block of threads, do in a reduction. As on the processor (kernels/reduce/reduce.h) the
// order is fixed, so the bits are always the same; at most 64 numbers are added in float before they go into a double.
// It is for .cu files and for NVRTC.
#pragma once

#include <cstdint>

#include "ops/kit/cuda_threads.h"

namespace snug::core {

// Combines what the threads of a warp have, in a fixed order. All of its threads call it, and all get the result.
template <class Op, class A>
__device__ inline A WarpReduce(A value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value = Op::Combine(value, __shfl_xor_sync(0xffffffffU, value, lanes));
  }
  return value;
}

// Does the same for a block, which has up to kCudaThreads threads, a multiple of 32.
template <class Op, class A>
__device__ inline A BlockReduce(A value) {
  __shared__ A of_warps[kCudaThreads / 32];
  value = WarpReduce<Op>(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  A total = of_warps[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) total = Op::Combine(total, of_warps[warp]);
  __syncthreads();  // so that the next call may write again
  return total;
}

// Combines what load(i) gives for i from `begin` to `end`, in steps. Several are loaded before they are combined.
template <class Op, class A, class Load>
__device__ inline double ReduceInSteps(int64_t begin, int64_t end, int64_t step, const Load& load) {
  constexpr int kInFloat = 64;
  constexpr int kFlight = 4;
  double total = Op::template kIdentity<double>;
  for (int64_t i = begin; i < end;) {
    A sum = Op::template kIdentity<A>;
    int n = 0;
    for (; n < kInFloat && i + (kFlight - 1) * step < end; n += kFlight, i += kFlight * step) {
      A some[kFlight];
#pragma unroll
      for (int u = 0; u < kFlight; ++u) some[u] = static_cast<A>(load(i + u * step));
#pragma unroll
      for (int u = 0; u < kFlight; ++u) sum = Op::Combine(sum, some[u]);
    }
#pragma unroll 1
    for (; n < kInFloat && i < end; ++n, i += step) sum = Op::Combine(sum, static_cast<A>(load(i)));
    total = Op::Combine(total, static_cast<double>(sum));
  }
  return total;
}

}  // namespace snug::core
