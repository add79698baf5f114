// The parts of a reduction that a thread and a block do. Like the processor's (lib/reduce.h): in a fixed order, so the
// bits are always the same; at most 64 numbers are added in float before they go into a double.
//
// For .cu files, and for NVRTC.
#pragma once

#include <cstdint>

#include "ops/lib/cuda_threads.h"

namespace snug {

// What the threads of a block have, combined in a fixed order; for blocks of up to kCudaThreads threads, a power of
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
  __syncthreads();  // values may be written again
  return total;
}

// Numbers [begin, end) in steps, as load(i) gives them.
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

}  // namespace snug
