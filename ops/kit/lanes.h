// Reductions over contiguous elements that vectorise without -ffast-math: kLanes independent partial results, combined
// in one fixed tree, so the bits depend on the length alone. Sums go through double every kLaneBlock elements: a long
// row loses no more than a short one. For use inside WithIsa bodies.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kit/isa.h"

namespace snug::core {

// Stands before a loop over so few independent elements that GCC would unroll it before it comes to vectorise it.
#if defined(__clang__)
#define SNUG_EACH_OF_N SNUG_INDEPENDENT
#else
#define SNUG_EACH_OF_N _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#endif

inline constexpr int kLanes = 32;
inline constexpr int64_t kLaneBlock = 4096;

// Combines element(i), for i in [begin, end), into `lanes`.
template <class A, class Element, class Combine>
SNUG_INLINE A ReduceLanes(int64_t begin, int64_t end, A initial, Element element, Combine combine) {
  A lanes[kLanes];
  for (int j = 0; j < kLanes; ++j) lanes[j] = initial;
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = combine(lanes[j], element(i + j));
  }
  for (int j = 0; i + j < end; ++j) lanes[j] = combine(lanes[j], element(i + j));
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] = combine(lanes[j], lanes[j + width]);
  }
  return lanes[0];
}

// Returns the sum of element(i) for i in [0, n), which is kept in A within blocks.
template <class A, class Element>
SNUG_INLINE double LaneSum(int64_t n, Element element) {
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kLaneBlock) {
    sum += static_cast<double>(ReduceLanes<A>(begin, std::min(n, begin + kLaneBlock), A(0), element,
                                              [](A a, A b) SNUG_LAMBDA { return a + b; }));
  }
  return sum;
}

// Returns the largest element(i) for i in [0, n), n >= 1. NaNs are passed over.
template <class A, class Element>
SNUG_INLINE A LaneMax(int64_t n, Element element) {
  return ReduceLanes<A>(0, n, element(0), element, [](A a, A b) SNUG_LAMBDA { return b > a ? b : a; });
}

}  // namespace snug::core
