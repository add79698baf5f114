// Where the slices of a scanned or collected value lie.
#pragma once

#include <cstdint>

#include "engine/graph/value_type.h"

namespace snug::core {

// How many places along the axis a round's slice takes. As a rule it is one, and the slice does not have the axis. A
// slice with as many axes as the whole has it: that of a loop whose rounds are chunks of rounds (recompute.h). A stash
// has slices of any shape, one in a place.
inline int64_t PlacesOfSlice(const Shape& whole, const Shape& slice, int axis, bool stash) {
  return stash || slice.rank() != whole.rank() ? 1 : slice[axis];
}

// A slice is `blocks` ranges of `block_bytes` each, of `slice_places` places along the axis. Of the whole, which has
// `places`, the ranges begin `block_stride` bytes apart, and those of the next slice `block_bytes` further on. The
// slices begin at one end of the whole, and need not reach the other one.
struct LoopSlices {
  int64_t places = 0, slice_places = 1;
  int64_t blocks = 0, block_bytes = 0, block_stride = 0;
  bool reverse = false;
  // Whether a round finds its slice in the whole as kernels want it: one range, which begins where values may. This is
  // so along axis 0 (or if there is only one of all axes before) if a slice has a multiple of the alignment's bytes.
  bool in_place = false;

  int64_t bytes() const { return blocks * block_bytes; }  // of a slice
  int64_t OffsetOf(int64_t round) const {
    const int64_t first = reverse ? places - (round + 1) * slice_places : round * slice_places;
    return first * (block_bytes / slice_places);
  }
};

LoopSlices SlicesAlong(const ValueType& whole, int64_t slice_places, int axis, bool reverse, int64_t alignment);
// These copy a round's slice out of the whole, or into it. Null stands for zeros.
void TakeSlice(const LoopSlices& slices, int64_t round, const char* whole, char* slice);
void PutSlice(const LoopSlices& slices, int64_t round, const char* slice, char* whole);

}  // namespace snug::core
