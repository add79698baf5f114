// Sixteen neighbouring elements at a time, for loops over channels of which there may be few: every loop has the same
// constant length, which the compiler makes one or two vectors of. For use inside WithIsa bodies.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/lib/isa.h"

namespace snug {

inline constexpr int64_t kSixteen = 16;

// Before a loop over kSixteen independent elements. GCC would unroll so short a loop before it comes to vectorise it.
#if defined(__clang__)
#define SNUG_SIXTEEN SNUG_INDEPENDENT
#else
#define SNUG_SIXTEEN _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#endif

// Up to sixteen elements from `at` on, of an array that ends at `end`: `count` of them are meant, but where the array
// has room for sixteen all of them are touched. So an array has to be written in ascending order: what a store leaves
// behind its `count` elements is overwritten by the next one.
struct Reach {
  int64_t at, count, end;
};

// fn(pointer to sixteen elements): of the array, or where it is too short, of a copy.
template <class T, class Fn>
SNUG_INLINE void ReadSixteen(const T* array, Reach reach, Fn fn) {
  if (reach.at + kSixteen <= reach.end) return fn(array + reach.at);
  T copy[kSixteen] = {};
  std::copy_n(array + reach.at, reach.count, copy);
  fn(static_cast<const T*>(copy));
}
template <class T, class Fn>
SNUG_INLINE void WriteSixteen(T* array, Reach reach, Fn fn) {
  if (reach.at + kSixteen <= reach.end) return fn(array + reach.at);
  T copy[kSixteen];
  fn(static_cast<T*>(copy));
  std::copy_n(copy, reach.count, array + reach.at);
}

}  // namespace snug
