#include "memory/place/olla_pack.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace snug::core::memory {
namespace {

std::vector<Span> NeededSpans(const Buffer& buffer) {
  std::vector<Span> needed;
  int32_t first = buffer.first;
  for (const Span& gap : buffer.gaps) {
    if (gap.first > first) needed.push_back({first, gap.first - 1});
    first = gap.last + 1;
  }
  if (first <= buffer.last) needed.push_back({first, buffer.last});
  return needed;
}

bool Meet(const Span& a, const Span& b) { return a.first <= b.last && b.first <= a.last; }

// The arena ends where the highest buffer does.
void SetArena(const Problem& problem, Plan* plan) {
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    plan->arena_bytes = std::max(plan->arena_bytes, plan->offsets[i] + problem.buffers[i].size_bytes);
  }
}

bool AnyFixed(const Problem& problem) {
  return std::any_of(problem.buffers.begin(), problem.buffers.end(),
                     [](const Buffer& buffer) { return buffer.fixed_offset >= 0; });
}

void PutOn(int64_t* top, Buffer* buffer) {
  buffer->fixed_offset = AlignUp(*top, buffer->alignment);
  *top = buffer->fixed_offset + buffer->size_bytes;
}

}  // namespace

bool LiveTogether(const Buffer& a, const Buffer& b) {
  if (!Meet({a.first, a.last}, {b.first, b.last})) return false;
  if (a.gaps.empty() && b.gaps.empty()) return true;
  for (const Span& x : NeededSpans(a)) {
    for (const Span& y : NeededSpans(b)) {
      if (Meet(x, y)) return true;
    }
  }
  return false;
}

Plan PackUpwards(const Problem& problem, absl::Span<const int32_t> sequence) {
  Plan plan{.offsets = std::vector<int64_t>(problem.buffers.size(), 0)};
  for (size_t at = 0; at < sequence.size(); ++at) {
    const auto i = static_cast<size_t>(sequence[at]);
    const Buffer& buffer = problem.buffers[i];
    int64_t offset = 0;
    for (const int32_t other : sequence.subspan(0, at)) {
      const Buffer& below = problem.buffers[static_cast<size_t>(other)];
      if (below.size_bytes == 0 || !LiveTogether(buffer, below)) continue;
      offset = std::max(offset, plan.offsets[static_cast<size_t>(other)] + below.size_bytes);
    }
    plan.offsets[i] = buffer.fixed_offset >= 0 ? buffer.fixed_offset : AlignUp(offset, buffer.alignment);
  }
  SetArena(problem, &plan);
  return plan;
}

Plan PackLowest(const Problem& problem, absl::Span<const int32_t> sequence) {
  Plan plan{.offsets = std::vector<int64_t>(problem.buffers.size(), 0)};
  std::vector<int32_t> placed;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].fixed_offset < 0) continue;
    plan.offsets[i] = problem.buffers[i].fixed_offset;
    placed.push_back(static_cast<int32_t>(i));
  }
  for (const int32_t next : sequence) {
    const Buffer& buffer = problem.buffers[static_cast<size_t>(next)];
    if (buffer.fixed_offset >= 0) continue;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const int32_t other : placed) {
      const Buffer& neighbour = problem.buffers[static_cast<size_t>(other)];
      if (neighbour.size_bytes == 0 || !LiveTogether(buffer, neighbour)) continue;
      const int64_t offset = plan.offsets[static_cast<size_t>(other)];
      taken.emplace_back(offset, offset + neighbour.size_bytes);
    }
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + buffer.size_bytes <= begin) break;
      offset = std::max(offset, AlignUp(end, buffer.alignment));
    }
    plan.offsets[static_cast<size_t>(next)] = offset;
    placed.push_back(next);
  }
  SetArena(problem, &plan);
  return plan;
}

Plan PackLargestFirst(const Problem& problem) {
  std::vector<int32_t> sequence(problem.buffers.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  std::stable_sort(sequence.begin(), sequence.end(), [&](int32_t a, int32_t b) {
    return problem.buffers[static_cast<size_t>(a)].size_bytes > problem.buffers[static_cast<size_t>(b)].size_bytes;
  });
  return PackLowest(problem, sequence);
}

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
