// What says which rows of a value count: one byte for all of them, or one for each entry of axis 0. Rows lie one after
// the other in every layout, so they are chosen and copied as bytes, whatever their dtype.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "ops/infer_context.h"

namespace snug::core {

// Checks that input `mask` has a byte for all of a value of shape `of`, or for each of its rows.
inline absl::Status CheckRowMask(const InferContext& c, int mask, const Shape& of) {
  const Shape& shape = c.shape(mask);
  if (shape.num_elements() == 1) return absl::OkStatus();
  if (shape.rank() == 1 && of.rank() >= 1 && shape[0] == of[0]) return absl::OkStatus();
  return c.InputError(mask, of.rank() == 0 ? std::string("expected one number")
                                           : absl::StrCat("expected one number, or one for each of the ", of[0],
                                                          " rows of ", of.ToString()));
}

// How many bytes of a value one byte of the mask speaks for; at least 1.
inline int64_t BytesForEach(const ValueType& mask, const ValueType& value) {
  return std::max<int64_t>(value.size_bytes() / std::max<int64_t>(mask.num_elements(), 1), 1);
}

// Calls run(begin, end, counts) for ranges of bytes that cover [begin, end): the byte of the mask is the same within
// each of them.
template <class Run>
void ForEachRange(const uint8_t* mask, int64_t bytes_for_each, int64_t begin, int64_t end, const Run& run) {
  while (begin < end) {
    const int64_t row = begin / bytes_for_each;
    const int64_t row_end = (row + 1) * bytes_for_each;
    const int64_t until = row_end < end ? row_end : end;
    run(begin, until, mask[row] != 0);
    begin = until;
  }
}

}  // namespace snug::core
