// The planning problem: buffers with lifetimes over the positions of an Order, to be given offsets in one arena. This
// library knows sizes, times and conflicts, never graphs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug::memory {

struct Buffer {
  std::string name;  // for reports
  int64_t size_bytes = 0;
  int64_t alignment = 64;
  // Positions in the Order, both inclusive: written first at `first`, needed last at `last`.
  int32_t first = 0;
  int32_t last = 0;
};

struct Problem {
  std::vector<Buffer> buffers;
};

struct Plan {
  std::vector<int64_t> offsets;  // one for each buffer
  int64_t arena_bytes = 0;
};

inline int64_t AlignUp(int64_t value, int64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace snug::memory
