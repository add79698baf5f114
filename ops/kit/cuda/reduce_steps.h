// What a single thread, a warp and a block of threads do in a reduction. As on the processor (kernels/reduce/reduce.h)
// the order is fixed, so the bits are always the same; at most 64 numbers are added in float before they go into a
// double. It is for .cu files and for NVRTC.
#pragma once

#include <cstdint>

#include "ops/kit/cuda/pack.h"
#include "ops/kit/cuda/threads.h"

namespace snug::core {

// Combines what the threads of a warp have, in a fixed order. All of its threads call it, and all get the result.
template <class Op, class A>
__device__ inline A WarpReduce(A value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value = Op::Combine(value, __shfl_xor_sync(0xffffffffU, value, lanes));
  }
  return value;
}

// Does the same for a block, whose threads are a multiple of 32.
template <class Op, class A>
__device__ inline A BlockReduce(A value) {
  __shared__ A of_warps[kMostBlockThreads / 32];
  value = WarpReduce<Op>(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  A total = of_warps[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) total = Op::Combine(total, of_warps[warp]);
  __syncthreads();  // so that the next call may write again
  return total;
}

// Combines the packs that load(i) gives for i from `begin` to `end`, in steps: numbers in the same place of a pack, or,
// where there is a single total, all of them. Several packs are loaded before they are combined.
template <class Op, class A, int kTotals, class Load>
__device__ inline void ReducePacks(int64_t begin, int64_t end, int64_t step, const Load& load,
                                   double (&totals)[kTotals]) {
  using Pack = decltype(load(begin));
  constexpr int kPack = sizeof(Pack) / sizeof(Pack::values[0]);
  static_assert(kTotals == 1 || kTotals == kPack);
  constexpr int kInFloat = kTotals == 1 ? 64 / kPack : 64;  // packs
  constexpr int kFlight = 4;
  for (int j = 0; j < kTotals; ++j) totals[j] = Op::template kIdentity<double>;
  for (int64_t i = begin; i < end;) {
    A sums[kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j) sums[j] = Op::template kIdentity<A>;
    const auto use = [&](const Pack& pack) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) sums[j] = Op::Combine(sums[j], static_cast<A>(pack.values[j]));
    };
    int n = 0;
    for (; n < kInFloat && i + (kFlight - 1) * step < end; n += kFlight, i += kFlight * step) {
      Pack some[kFlight];
#pragma unroll
      for (int u = 0; u < kFlight; ++u) some[u] = load(i + u * step);
#pragma unroll
      for (int u = 0; u < kFlight; ++u) use(some[u]);
    }
#pragma unroll 1
    for (; n < kInFloat && i < end; ++n, i += step) use(load(i));
    if constexpr (kTotals == 1) {
#pragma unroll
      for (int width = kPack / 2; width > 0; width /= 2) {
#pragma unroll
        for (int j = 0; j < width; ++j) sums[j] = Op::Combine(sums[j], sums[j + width]);
      }
    }
#pragma unroll
    for (int j = 0; j < kTotals; ++j) totals[j] = Op::Combine(totals[j], static_cast<double>(sums[j]));
  }
}

// Combines what load(i) gives for i from `begin` to `end`, in steps.
template <class Op, class A, class Load>
__device__ inline double ReduceInSteps(int64_t begin, int64_t end, int64_t step, const Load& load) {
  double total[1];
  ReducePacks<Op, A>(
      begin, end, step, [&](int64_t i) { return CudaPack<A, 1>{{static_cast<A>(load(i))}}; }, total);
  return total[0];
}

}  // namespace snug::core
