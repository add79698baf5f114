// Fills from the bottom up: the lowest stretch of the skyline gets a buffer that lives within it or, if there is none,
// is filled to the level of its lower neighbour. It needs no pairs, so it is used where there are too many of them.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/place/instance.h"

namespace snug::core::memory {

// Says which of the first few buffers that fit, from the left, is taken.
constexpr int kSkylineRules = 3;  // 0: the first, 1: the longest-lived, 2: the largest

// Fills `offsets` (one for each item, without base) and returns the highest end. It does not use gaps. O(n log n).
int64_t PlaceOnSkyline(const Instance& instance, int rule, std::vector<int64_t>* offsets);

}  // namespace snug::core::memory
