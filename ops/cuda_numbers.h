// What the device does to numbers in an instruction or a few, where functions that are the same everywhere take many.
// It is for .cu files.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "engine/base/bfloat16.h"
#include "ops/kit/cuda/pack.h"
#include "ops/kit/vec_math.h"

namespace snug::core {

// The device computes 2^t in one instruction, whose error is 2 ulp, where Exp takes a polynomial. The product x log2(e)
// is rounded to t; what that loses, e, is made good by the factor 1 + e ln(2). The limits keep t finite and lie where
// the result is 0 or infinite; a NaN comes through them.
__device__ inline float DeviceExp(float x) {
#if defined(__CUDA_ARCH__)
  constexpr float kLog2E = 1.44269502F, kRestOfLog2E = 1.92596303e-8F, kLn2 = 0.693147182F;
  float y = x < -104.0F ? -104.0F : x;
  y = y > 89.0F ? 89.0F : y;
  const float t = y * kLog2E;
  const float rest = __fmaf_rn(y, kRestOfLog2E, __fmaf_rn(y, kLog2E, -t));
  float power;
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(t));
  return power * __fmaf_rn(rest, kLn2, 1.0F);
#else
  return Exp(x);
#endif
}
__device__ inline double DeviceExp(double x) { return Exp(x); }

// Returns numbers as a pack of T. The device rounds two to bfloat16 in one instruction, where BFloat16's own rounding
// takes seven for each. The bits are the same, but for those of NaN, which stays NaN.
template <class T, int kPack, class A>
SNUG_HOST_DEVICE inline CudaPack<T, kPack> RoundPack(const A (&numbers)[kPack]) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, BFloat16> && std::is_same_v<A, float> && kPack % 2 == 0) {
    CudaPack<uint32_t, kPack / 2> words;
    for (int i = 0; i < kPack / 2; ++i) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(words.values[i]) : "f"(numbers[2 * i + 1]), "f"(numbers[2 * i]));
    }
    return std::bit_cast<CudaPack<T, kPack>>(words);
  }
#endif
  CudaPack<T, kPack> pack;
  for (int i = 0; i < kPack; ++i) pack.values[i] = static_cast<T>(numbers[i]);
  return pack;
}

}  // namespace snug::core
