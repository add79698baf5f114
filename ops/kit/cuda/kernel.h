// What kernels and their launchers have in common. It is for .cu files, which nvcc compiles, and g++ does for the tests
// (tests/cuda/emulation/emulation.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/cuda/cuda_launch.h"
#include "ops/kit/cuda/pack.h"
#include "ops/kit/cuda/threads.h"

namespace snug::core {

// A loop `for (int64_t i = FirstIndex(); i < n; i += IndexStep())` that all threads of the grid do together.
#define SNUG_CUDA_FOR(i, n)                                                              \
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); \
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)

// Returns the grid for such a loop. It has never more blocks than keep every processor busy several times over.
inline cuda::LaunchShape ShapeFor(int64_t n) {
  return {.blocks = std::min<int64_t>(cuda::CountBlocks(n, kCudaThreads), 1 << 14), .threads = kCudaThreads};
}

// Says whether an array may be read in packs of 16 bytes.
SNUG_HOST_DEVICE inline bool IsAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

template <class... T>
SNUG_HOST_DEVICE bool AllAligned(const T*... addresses) {
  return (IsAligned(addresses) && ...);
}

// Calls run(pack) with how many numbers a thread takes at once, an integral_constant: as many T as 16 bytes have, where
// `n` is a multiple of that and all arrays begin at multiples of 16 bytes, or else 1.
template <class T, class Run, class... Arrays>
absl::Status WithPack(int64_t n, const Run& run, const Arrays*... arrays) {
  if (n % kCudaPack<T> == 0 && AllAligned(arrays...)) return run(std::integral_constant<int, kCudaPack<T>>());
  return run(std::integral_constant<int, 1>());
}

}  // namespace snug::core
