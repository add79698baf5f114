// Where the slices of a scanned or collected value lie.
#pragma once

#include <cstdint>

#include "engine/graph/value_type.h"

namespace snug::core {

// A slice is `blocks` ranges of `block_bytes` each. Of the whole, they begin `block_stride` bytes apart, and those of
// the next slice `block_bytes` further on.
struct LoopSlices {
  int64_t rounds = 0;
  int64_t blocks = 0, block_bytes = 0, block_stride = 0;
  bool reverse = false;
  // Whether a round finds its slice in the whole as kernels want it: one range, which begins where values may. This is
  // so along axis 0 (or if there is only one of all axes before) if a slice has a multiple of the alignment's bytes.
  bool in_place = false;

  int64_t bytes() const { return blocks * block_bytes; }  // of a slice
  int64_t OffsetOf(int64_t round) const { return (reverse ? rounds - 1 - round : round) * block_bytes; }
};

LoopSlices SlicesAlong(const ValueType& whole, int axis, bool reverse, int64_t alignment);
// These copy a round's slice out of the whole, or into it. Null stands for zeros.
void TakeSlice(const LoopSlices& slices, int64_t round, const char* whole, char* slice);
void PutSlice(const LoopSlices& slices, int64_t round, const char* slice, char* whole);

}  // namespace snug::core
