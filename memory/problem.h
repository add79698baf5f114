// The placement problem: buffers with lifetimes over the positions of an Order, which need offsets in one arena. This
// library knows sizes, times and conflicts, never graphs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug::core::memory {

// A range of positions in the Order, both ends included.
struct Span {
  int32_t first = 0;
  int32_t last = 0;
};

struct Buffer {
  std::string name;  // only for reports
  int64_t size_bytes = 0;
  int64_t alignment = 64;
  // The position that writes it first, and the last one that needs it.
  int32_t first = 0;
  int32_t last = 0;
  // Ranges within [first, last], sorted and separate, in which nothing of the buffer is needed and others may use its
  // bytes.
  std::vector<Span> gaps;
  int64_t fixed_offset = -1;  // when >= 0, it must lie there
};

// Lets the task at `output.first`, which is `input.last` and reads `input` for the last time, write `output` over the
// bytes of `input`. The two may then lie at one offset, if the output is no larger. Everywhere else they are in
// conflict.
struct InPlace {
  int32_t output = -1;
  int32_t input = -1;
};

struct Problem {
  std::vector<Buffer> buffers;
  std::vector<InPlace> in_place;  // these are allowed, not required
};

struct Plan {
  std::vector<int64_t> offsets;  // one for each buffer
  int64_t arena_bytes = 0;       // the highest end of a buffer
};

inline int64_t AlignUp(int64_t value, int64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// Calls `visit(first, last)` for each stretch in which the buffer's bytes are needed, in sequence: its lifetime without
// the gaps.
template <typename Visit>
void ForEachLiveSpan(const Buffer& buffer, const Visit& visit) {
  int32_t from = buffer.first;
  for (const Span& gap : buffer.gaps) {
    visit(from, gap.first - 1);
    from = gap.last + 1;
  }
  visit(from, buffer.last);
}

// No legal Plan of `problem` has a smaller arena than this: the largest sum of sizes that are live at one position.
// Gaps do not count, and each size but the topmost's is rounded up as the alignments force it. O(n log n).
int64_t LowerBound(const Problem& problem);

}  // namespace snug::core::memory
