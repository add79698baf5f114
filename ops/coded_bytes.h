// How many bytes numbers take that are kept in 8 bits each, in blocks with a scale each: what optimizers keep, where
// that is asked for (ops/kernels/update/narrow_numbers.h).
#pragma once

#include <cstdint>

#include "engine/base/host_device.h"

namespace snug::core {

inline constexpr int64_t kCodeBlock = 256;  // numbers that have a scale together

// First come the scales, as float32, up to a multiple of 16 bytes; then a code for each number.
SNUG_HOST_DEVICE inline int64_t ScaleBytes(int64_t n) { return (n + 4 * kCodeBlock - 1) / (4 * kCodeBlock) * 16; }
SNUG_HOST_DEVICE inline int64_t CodedBytes(int64_t n) { return ScaleBytes(n) + n; }

}  // namespace snug::core
