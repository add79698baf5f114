// What a single thread, and a block of threads, do in a reduction. As on the processor (kernels/reduce/reduce.h) the
// order is fixed, so the bits are always the same; at most 64 numbers are added in float before they go into a double.
// It is for .cu files and for NVRTC.
#pragma once

#include <cstdint>

#include "ops/kit/cuda_threads.h"

namespace snug::core {

// Combines what the threads of a block have, in a fixed order. The block has up to kCudaThreads threads, a power of
// two. All threads call it, and all get the result.
template <class Op, class A>
__device__ inline A BlockReduce(A value) {
  __shared__ A values[kCudaThreads];
  values[threadIdx.x] = value;
  for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) {
      values[threadIdx.x] = Op::Combine(values[threadIdx.x], values[threadIdx.x + width]);
    }
  }
  __syncthreads();
  const A total = values[0];
  __syncthreads();  // so that the next call may write the values again
  return total;
}

// Combines what load(i) gives for i from `begin` to `end`, in steps.
template <class Op, class A, class Load>
__device__ inline double ReduceInSteps(int64_t begin, int64_t end, int64_t step, const Load& load) {
  constexpr int kInFloat = 64;
  double total = Op::template kIdentity<double>;
  for (int64_t i = begin; i < end;) {
    A sum = Op::template kIdentity<A>;
    for (int n = 0; n < kInFloat && i < end; ++n, i += step) sum = Op::Combine(sum, static_cast<A>(load(i)));
    total = Op::Combine(total, static_cast<double>(sum));
  }
  return total;
}

}  // namespace snug::core
