// How sizes are cut into parts that blocks, tasks and panels have.
#pragma once

#include <algorithm>
#include <cstdint>

namespace snug::core {

// The number of parts of `part` each; the last may be smaller.
constexpr int64_t Parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

// Cuts `size` into equal parts of at most `most` rather than a small last one; all parts are multiples of `multiple`,
// which divides `most`.
constexpr int64_t EqualPart(int64_t size, int64_t most, int64_t multiple) {
  const int64_t part = Parts(size, std::max<int64_t>(1, Parts(size, most)));
  return std::max<int64_t>(1, Parts(part, multiple)) * multiple;
}

}  // namespace snug::core
