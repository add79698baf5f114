// What the source of every fused kernel (source.h) begins with. It is compiled by NVRTC, which has no standard
// library: see std.h. Nothing of the engine includes it.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "engine/base/bfloat16.h"
#include "ops/kit/convert.h"
#include "ops/kit/cuda/pack.h"
#include "ops/math/functions.h"

namespace snug::core {

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

template <class T, int kPack>
__device__ inline CudaPack<T, kPack> Load(const void* x, int64_t i) {
  return LoadPack<true, kPack>(static_cast<const T*>(x) + i * kPack, kPack);
}
template <class T, int kPack>
__device__ inline void Store(const CudaPack<T, kPack>& pack, void* y, int64_t i) {
  StorePack<true>(pack, static_cast<T*>(y) + i * kPack, kPack);
}

// Computes one op as its own kernel does (elementwise.cu, values.cu).
template <class T, class F, class... X>
__device__ inline T Apply(const F& f, X... x) {
  return static_cast<T>(f(static_cast<Accumulator<X>>(x)...));
}
template <class T, class... X>
__device__ inline T Sum(T first, X... rest) {
  Accumulator<T> sum = static_cast<Accumulator<T>>(first);
  ((sum += static_cast<Accumulator<T>>(rest)), ...);
  return static_cast<T>(sum);
}

// Hands one op's result to the next unchanged. `zero` is 0, but the compiler cannot know that. Otherwise it would turn
// a product here and a sum there into one instruction that rounds once, and the bits would not be those of two kernels.
__device__ inline float Keep(float x, uint64_t zero) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ static_cast<uint32_t>(zero));
}
__device__ inline double Keep(double x, uint64_t zero) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) ^ zero);
}
// No instruction does two operations on other types at once: bfloat16 is rounded by integer arithmetic.
template <class T>
__device__ inline T Keep(T x, uint64_t) {
  return x;
}

}  // namespace snug::core

#define SNUG_FUSED_FOR(i, n)                                                             \
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); \
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)
