// What a product asks for while it multiplies: memory that it needs next, which is then in the cache. A strip of rows
// asks for no more than the rest of one row of that memory: a product of fewer strips than such rows does not ask for
// all of it.
#pragma once

#include <absl/types/span.h>

#include <algorithm>
#include <cstdint>

#include "ops/kernels/matmul/parts.h"
#include "ops/kit/isa.h"

namespace snug::core {

// Some rows of memory, of so many bytes each.
struct NeededNext {
  const void* data = nullptr;
  int64_t bytes = 0;
  int64_t rows = 1, stride = 0;  // from the beginning of a row to the next one's, in bytes
};

// A rectangle of a row-major matrix. Whole rows follow each other, so they count as one.
template <class T>
NeededNext NeededRows(const T* data, int64_t rows, int64_t columns, int64_t matrix_columns) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  if (columns == matrix_columns) return {.data = data, .bytes = rows * columns * kBytes};
  return {.data = data, .bytes = columns * kBytes, .rows = rows, .stride = matrix_columns * kBytes};
}

// What a strip asks for: so many bytes at a time.
class Later {
 public:
  static constexpr int64_t kLine = 64;  // bytes of a cache

  // A strip asks before every so many steps along k, which are unrolled, for a line or two: asking for more would
  // repeat lines more often, and where they come from memory, loads would wait behind it. More steps are not unrolled,
  // as the compiler would move products from one to another, and sums to the stack and back.
  static constexpr int64_t kSteps = 2;

  // How many times a strip asks in all.
  static constexpr int64_t TimesOf(int64_t depth) { return depth / kSteps; }

  Later() = default;
  SNUG_INLINE Later(const char* data, int64_t at_once) : data_(data), at_once_(at_once) {}

  // Asks for the first line, and the second if there is one, of its next bytes.
  SNUG_INLINE void Ask() {
    __builtin_prefetch(data_, 0, 2);
    if (at_once_ > kLine) __builtin_prefetch(data_ + kLine, 0, 2);
    data_ += at_once_;
  }
  // Asks at once for what Ask leaves out when it asks so many times: few times leave much to each.
  SNUG_INLINE void AskForRest(int64_t times) const {
    for (int64_t from = 2 * kLine; from < at_once_; from += kLine) {
      for (int64_t time = 0; time < times; ++time) __builtin_prefetch(data_ + time * at_once_ + from, 0, 2);
    }
  }

 private:
  const char* data_ = nullptr;
  int64_t at_once_ = 0;
};

// Goes through what is needed next, a share of it with each of the strips that are multiplied meanwhile.
class AskingForNext {
 public:
  SNUG_INLINE AskingForNext(absl::Span<const NeededNext> next, int64_t strips)
      : part_(next.data()), end_(part_ + next.size()), strips_(strips) {
    for (const NeededNext& part : next) left_ += part.bytes * part.rows;
  }

  // Returns the share of a strip that asks so many times, which ends where a row does; where nothing is left, or it
  // never asks, something that is in the cache.
  SNUG_INLINE Later Take(int64_t times, const void* in_cache) {
    const int64_t strips = std::max<int64_t>(1, strips_--);
    while (part_ != end_ && (part_->bytes == 0 || row_ == part_->rows)) {
      ++part_;
      row_ = 0;
    }
    if (part_ == end_) return {static_cast<const char*>(in_cache), 0};
    const char* const data = static_cast<const char*>(part_->data) + row_ * part_->stride + taken_;
    const int64_t bytes = std::min(part_->bytes - taken_, Parts(left_, strips));
    left_ -= bytes;
    taken_ += bytes;
    if (taken_ == part_->bytes) {
      taken_ = 0;
      ++row_;
    }
    if (times == 0) {  // so short a strip asks now
      for (int64_t from = 0; from < bytes; from += Later::kLine) __builtin_prefetch(data + from, 0, 2);
      return {static_cast<const char*>(in_cache), 0};
    }
    const Later later(data, Parts(bytes, times));
    later.AskForRest(times);
    return later;
  }

 private:
  const NeededNext *part_, *end_;
  int64_t row_ = 0, taken_ = 0;  // of the part, and of its row
  int64_t strips_, left_ = 0;    // bytes of all parts
};

}  // namespace snug::core
