#include "engine/compile/control/loop_slices.h"

#include <cstring>

namespace snug::core {

LoopSlices SlicesAlong(const ValueType& whole, int axis, bool reverse, int64_t alignment) {
  const int64_t elements = whole.num_elements();
  LoopSlices slices{.rounds = whole.shape[axis], .blocks = whole.shape.Count(0, axis), .reverse = reverse};
  slices.block_bytes =
      elements == 0 ? 0 : whole.size_bytes() / elements * whole.shape.Count(axis + 1, whole.shape.rank());
  slices.block_stride = slices.block_bytes * slices.rounds;
  slices.in_place = slices.blocks == 1 && slices.block_bytes % alignment == 0;
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
