#include "memory/place/olla_preplace.h"

#include <algorithm>
#include <limits>

namespace snug::core::memory {
namespace {

bool AnyFixed(const Problem& problem) {
  return std::any_of(problem.buffers.begin(), problem.buffers.end(),
                     [](const Buffer& buffer) { return buffer.fixed_offset >= 0; });
}

void PutOn(int64_t* top, Buffer* buffer) {
  buffer->fixed_offset = AlignUp(*top, buffer->alignment);
  *top = buffer->fixed_offset + buffer->size_bytes;
}

}  // namespace

Problem PreplaceConstant(Problem problem) {
  if (AnyFixed(problem)) return problem;
  int32_t first = std::numeric_limits<int32_t>::max();
  int32_t last = 0;
  for (const Buffer& buffer : problem.buffers) {
    first = std::min(first, buffer.first);
    last = std::max(last, buffer.last);
    if (buffer.alignment != problem.buffers.front().alignment) return problem;
  }
  int64_t top = 0;
  for (Buffer& buffer : problem.buffers) {
    if (buffer.first == first && buffer.last == last && buffer.gaps.empty()) PutOn(&top, &buffer);
  }
  return problem;
}

Problem PreplacePyramid(Problem problem) {
  if (AnyFixed(problem)) return problem;
  int64_t top = 0;
  const Buffer* below = nullptr;
  for (;;) {
    Buffer* longest = nullptr;
    for (Buffer& buffer : problem.buffers) {
      if (buffer.fixed_offset >= 0 || buffer.size_bytes == 0 || buffer.first == buffer.last) continue;
      if (below != nullptr && (buffer.first < below->first || buffer.last > below->last)) continue;
      if (longest == nullptr || buffer.last - buffer.first > longest->last - longest->first) longest = &buffer;
    }
    if (longest == nullptr) return problem;
    PutOn(&top, longest);
    below = longest;
  }
}

}  // namespace snug::core::memory
