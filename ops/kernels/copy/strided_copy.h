// Copies and fills boxes of arrays with any strides: that is the whole work of slice, concat, split, transpose, pad and
// layout conversions. Dimensions are dropped, reordered and merged first. What is left runs as memcpy of contiguous
// runs, as blocked transposes, or as strided loops, in parallel and at the speed of memory.
//
// Strides count elements of `element_bytes` (1, 2, 4 or 8) bytes. Pointers are those of the box's first element.
#pragma once

#include <cstdint>

#include "engine/base/shape.h"

namespace snug::core {

// Sets dst[i * dst_strides] = src[i * src_strides] for every index i of the box. The arrays may not overlap.
void CopyStrided(int threads, int64_t element_bytes, const Shape& box, const void* src, const Strides& src_strides,
                 void* dst, const Strides& dst_strides);

// Sets dst[i * strides] = *element for every index i of the box.
void FillStrided(int threads, int64_t element_bytes, const Shape& box, const void* element, void* dst,
                 const Strides& strides);

// Fills what lies outside of the box [begin, begin + box) in an array of shape `whole` that starts at dst.
void FillAround(int threads, int64_t element_bytes, const Shape& whole, const Shape& begin, const Shape& box,
                const void* element, void* dst, const Strides& strides);

// Returns where element `index` lies, counted in elements.
inline int64_t OffsetOf(const Shape& index, const Strides& strides) {
  int64_t offset = 0;
  for (int i = 0; i < index.rank(); ++i) offset += index[i] * strides[static_cast<size_t>(i)];
  return offset;
}

}  // namespace snug::core
