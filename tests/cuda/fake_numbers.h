// Reads and writes elements of a pretended library's arrays as numbers.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/bfloat16.h"
#include "engine/base/dtype.h"

namespace snug::core::cuda {

inline double NumberAt(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::kFloat64) return static_cast<const double*>(data)[i];
  if (dtype == DType::kFloat32) return static_cast<const float*>(data)[i];
  return static_cast<float>(static_cast<const BFloat16*>(data)[i]);
}

inline void PutNumber(void* data, DType dtype, int64_t i, double value) {
  if (dtype == DType::kFloat64) {
    static_cast<double*>(data)[i] = value;
  } else if (dtype == DType::kFloat32) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  } else {
    static_cast<BFloat16*>(data)[i] = BFloat16(static_cast<float>(value));
  }
}

// Rounds to the 10 bits of mantissa that TF32 has.
inline double RoundedToTf32(double value) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  bits = (bits + 0x1000U) & ~0x1fffU;
  return std::bit_cast<float>(bits);
}

}  // namespace snug::core::cuda
