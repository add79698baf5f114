// Works through rows of numbers on a CUDA device. A team does each: a block of threads where rows are long and lie
// together, one thread otherwise. A kernel is a template over the team. It is for .cu files.
#pragma once

#include <cstdint>

#include "ops/kit/cuda_kernel.h"
#include "ops/kit/cuda_reduce.h"

namespace snug::core {

// Rows [outer][inner] of `width` numbers, which lie `inner` apart.
struct CudaRows {
  int64_t outer = 1, width = 1, inner = 1;

  SNUG_HOST_DEVICE int64_t count() const { return outer * inner; }
  // Returns where number i of a row lies.
  SNUG_HOST_DEVICE int64_t At(int64_t row, int64_t i) const { return (row / inner * width + i) * inner + row % inner; }
};

struct ThreadTeam {
  static __device__ int64_t FirstRow() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
  static __device__ int64_t RowStep() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }
  static __device__ int64_t First() { return 0; }
  static __device__ int64_t Step() { return 1; }
  template <class Op, class A>
  static __device__ A Combine(A own) {
    return own;
  }
  // Waits until everyone has read what others are about to overwrite.
  static __device__ void Wait() {}
};

struct BlockTeam {
  static __device__ int64_t FirstRow() { return blockIdx.x; }
  static __device__ int64_t RowStep() { return gridDim.x; }
  static __device__ int64_t First() { return threadIdx.x; }
  static __device__ int64_t Step() { return blockDim.x; }
  template <class Op, class A>
  static __device__ A Combine(A own) {
    return BlockReduce<Op>(own);
  }
  static __device__ void Wait() { __syncthreads(); }
};

// Combines load(0) to load(n - 1). All threads of the team call it, and all get the result.
template <class Team, class Op, class A, class Load>
__device__ double TeamReduce(int64_t n, const Load& load) {
  return Team::template Combine<Op>(ReduceInSteps<Op, A>(Team::First(), n, Team::Step(), load));
}

// Launches by_thread or by_block, two instances of one template, for rows.count() rows.
template <class... P>
absl::Status LaunchRows(const KernelContext& k, const CudaRows& rows, void (*by_thread)(P...), void (*by_block)(P...),
                        std::type_identity_t<P>... arguments) {
  if (rows.inner == 1 && rows.width > 32) {
    return k.cuda()->Launch(by_block, {.blocks = std::min<int64_t>(rows.count(), 1 << 16), .threads = kCudaThreads},
                            arguments...);
  }
  return k.cuda()->Launch(by_thread, ShapeFor(rows.count()), arguments...);
}

}  // namespace snug::core
