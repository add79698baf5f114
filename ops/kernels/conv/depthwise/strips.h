// How depthwise convolutions go through images: in strips of rows, which stay in the second-level cache, and in each by
// few channels at a time, so that rows find in the first-level cache what they have in common.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/kernels/conv/depthwise/depthwise.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/isa.h"

namespace snug::core::ops {
namespace depthwise {

inline constexpr int64_t kLineBytes = 64;  // of a cache
// What is read and written of a strip; the next strip's has room beside it.
inline constexpr int64_t kStripBytes = 128 << 10;

// The rows of an image of `height` rows that are done at once, where one takes row_bytes.
inline int64_t RowsOfStrip(int64_t height, int64_t row_bytes) {
  return EqualPart(height, std::max<int64_t>(1, kStripBytes / row_bytes), 1);
}

// The vectors of channels, of `lanes` floats, whose numbers lie in one line.
template <class T>
constexpr int64_t VectorsOfLine(int64_t lanes) {
  return std::max<int64_t>(1, kLineBytes / (lanes * static_cast<int64_t>(sizeof(T))));
}

// Asks for what the next strip will read, a few lines at a time: channels are read in lines that lie apart, so the
// processor does not foresee it.
class Coming {
 public:
  // `calls` is how often Ask is called, or a little less.
  SNUG_INLINE Coming(const void* begin, int64_t bytes, int64_t calls)
      : at_(static_cast<const char*>(begin)),
        end_(at_ + bytes),
        step_(Parts(Parts(bytes, calls), kLineBytes) * kLineBytes) {}
  SNUG_INLINE void Ask() {
    const char* const end = std::min(end_, at_ + step_);
    for (; at_ < end; at_ += kLineBytes) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const char* at_;
  const char* end_;
  int64_t step_;
};

// What is asked for on the way through rows, in so many calls.
template <class T>
SNUG_INLINE std::array<Coming, 3> ComingOf(const DepthwiseRows<T>& r, int64_t calls) {
  return {Coming(r.coming_x, r.coming_x_bytes, calls), Coming(r.coming_y, r.coming_y_bytes, calls),
          Coming(r.coming_rest, r.coming_rest_bytes, calls)};
}

}  // namespace depthwise
}  // namespace snug::core::ops
