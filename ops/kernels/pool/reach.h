// Works on N neighbouring elements at a time, N a constant, in loops over channels of which there may be few: the
// compiler makes vectors of them without a remainder. For use inside WithIsa bodies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ops/kit/lanes.h"

namespace snug::core {

inline constexpr size_t kCacheLine = 64;  // a vector that lies across two lines is slow to store and load

// Up to N elements from `at` on, in an array that ends at `end`. Only `count` of them are meant, but where the array
// has room for N all are touched. So an array has to be written in ascending order: what a store leaves behind its
// `count` elements is overwritten by the next one.
struct Reach {
  int64_t at, count, end;
};
inline constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();  // there is always room, so nothing is compared

// Calls fn with a pointer to N elements: those of the array or, where it is too short, those of a copy.
template <int N, class T, class Fn>
SNUG_INLINE void ReadReach(const T* array, Reach reach, Fn fn) {
  if (reach.at + N <= reach.end) return fn(array + reach.at);
  T copy[N] = {};
  std::copy_n(array + reach.at, reach.count, copy);
  fn(static_cast<const T*>(copy));
}
template <int N, class T, class Fn>
SNUG_INLINE void WriteReach(T* array, Reach reach, Fn fn) {
  if (reach.at + N <= reach.end) return fn(array + reach.at);
  T copy[N];
  fn(static_cast<T*>(copy));
  std::copy_n(copy, reach.count, array + reach.at);
}

}  // namespace snug::core
