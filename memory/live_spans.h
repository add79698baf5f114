// The stretches in which a buffer's bytes are needed: its lifetime without the gaps.
#pragma once

#include <cstdint>

#include "memory/problem.h"

namespace snug::core::memory {

// Calls `visit(first, last)` for each stretch, in sequence.
template <typename Visit>
void ForEachLiveSpan(const Buffer& buffer, const Visit& visit) {
  int32_t from = buffer.first;
  for (const Span& gap : buffer.gaps) {
    visit(from, gap.first - 1);
    from = gap.last + 1;
  }
  visit(from, buffer.last);
}

}  // namespace snug::core::memory
