// Converts a number to another element type. Floating numbers become integers by truncation; those that do not fit
// become the nearest that does, and NaN becomes 0.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/base/bfloat16.h"
#include "ops/kit/isa.h"

namespace snug::core {

template <class To, class From>
SNUG_INLINE To Convert(From x) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<To>;
    constexpr From kLow = static_cast<From>(Limits::min());
    constexpr From kHigh = static_cast<From>(Limits::max());  // may round up to a number that does not fit
    return x != x ? To(0) : x <= kLow ? Limits::min() : x >= kHigh ? Limits::max() : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// Converts a number that To is known to have, as one that was chosen among others of that type: nothing is rounded.
template <class To, class From>
SNUG_INLINE To Exactly(From x) {
  if constexpr (std::is_same_v<To, BFloat16>) {
    BFloat16 result;
    result.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
    return result;
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace snug::core
