// The placement problem: buffers with lifetimes over the positions of an Order, to be given offsets in one arena. This
// library knows sizes, times and conflicts, never graphs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug::memory {

// Positions in the Order, both inclusive.
struct Span {
  int32_t first = 0;
  int32_t last = 0;
};

struct Buffer {
  std::string name;  // for reports
  int64_t size_bytes = 0;
  int64_t alignment = 64;
  // Written first at `first`, needed last at `last`.
  int32_t first = 0;
  int32_t last = 0;
  // Within [first, last], sorted and apart: nothing of the buffer is needed then, and others may lie on its bytes.
  std::vector<Span> gaps;
  int64_t fixed_offset = -1;  // >= 0: it must lie there
};

// At `output.first`, which is `input.last`, the task that writes `output` may do so over the bytes of `input`, which it
// is the last to read: the two may lie at one offset if the output is no larger. Everywhere else they are in conflict.
struct InPlace {
  int32_t output = -1;
  int32_t input = -1;
};

struct Problem {
  std::vector<Buffer> buffers;
  std::vector<InPlace> in_place;  // what is allowed, not what must be
};

struct Plan {
  std::vector<int64_t> offsets;  // one for each buffer
  int64_t arena_bytes = 0;       // the highest end of a buffer
};

inline int64_t AlignUp(int64_t value, int64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace snug::memory
