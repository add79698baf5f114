#include "engine/compile/control/loop_slices.h"

#include <cstring>

namespace snug::core {

LoopSlices SlicesAlong(const ValueType& whole, int64_t slice_places, int axis, bool reverse, int64_t alignment) {
  const int64_t elements = whole.num_elements();
  LoopSlices slices{.places = whole.shape[axis],
                    .slice_places = slice_places,
                    .blocks = whole.shape.Count(0, axis),
                    .reverse = reverse};
  const int64_t place_bytes =
      elements == 0 ? 0 : whole.size_bytes() / elements * whole.shape.Count(axis + 1, whole.shape.rank());
  slices.block_bytes = place_bytes * slice_places;
  slices.block_stride = place_bytes * slices.places;
  const bool begins_where_values_may = !reverse || slices.block_stride % alignment == 0;
  const bool all_begin_there = slices.block_bytes % alignment == 0 || slices.places == slice_places;  // or there is one
  slices.in_place = slices.blocks == 1 && all_begin_there && begins_where_values_may;
  return slices;
}

void TakeSlice(const LoopSlices& slices, int64_t round, const char* whole, char* slice) {
  const char* from = whole + slices.OffsetOf(round);
  const auto bytes = static_cast<size_t>(slices.block_bytes);
  for (int64_t i = 0; i < slices.blocks; ++i, from += slices.block_stride, slice += bytes)
    std::memcpy(slice, from, bytes);
}

void PutSlice(const LoopSlices& slices, int64_t round, const char* slice, char* whole) {
  char* to = whole + slices.OffsetOf(round);
  const auto bytes = static_cast<size_t>(slices.block_bytes);
  for (int64_t i = 0; i < slices.blocks; ++i, to += slices.block_stride) {
    if (slice == nullptr) {
      std::memset(to, 0, bytes);
    } else {
      std::memcpy(to, slice + i * slices.block_bytes, bytes);
    }
  }
}

}  // namespace snug::core
