#include "engine/compile/memory/plan_room.h"

#include <absl/algorithm/container.h>

#include <algorithm>
#include <utility>

namespace snug::core {
namespace {

bool Overlap(memory::Span a, memory::Span b) { return a.first <= b.last && a.last >= b.first; }

}  // namespace

PlanRoom::PlanRoom(const memory::Problem& problem, memory::Plan* plan)
    : problem_(problem), plan_(*plan), is_kept_(problem.buffers.size()), stream_of_(problem.buffers.size(), 0) {
  for (const memory::Buffer& buffer : problem.buffers) kept_.push_back({buffer.first, buffer.last});
}

bool PlanRoom::Keep(size_t buffer, memory::Span wanted) {
  memory::Span& kept = kept_[buffer];
  const memory::Span all = {std::min(wanted.first, kept.first), std::max(wanted.last, kept.last)};
  if (all.first == kept.first && all.last == kept.last) return true;
  const bool stays = IsFree(buffer, {all.first, kept.first - 1}) && IsFree(buffer, {kept.last + 1, all.last});
  if (!stays && !Move(buffer, all)) return false;
  kept = all;
  is_kept_[buffer] = 1;
  return true;
}

// Says whether another buffer has bytes that are needed then.
bool PlanRoom::IsNeeded(size_t other, memory::Span when) const {
  const memory::Buffer& buffer = problem_.buffers[other];
  bool needed = is_kept_[other] && Overlap(kept_[other], when);
  memory::ForEachLiveSpan(buffer, [&](int32_t first, int32_t last) { needed |= Overlap({first, last}, when); });
  return needed && buffer.size_bytes > 0;
}

bool PlanRoom::IsFree(size_t buffer, memory::Span when) const {
  if (when.first > when.last) return true;
  const int64_t begin = plan_.offsets[buffer];
  const int64_t end = begin + problem_.buffers[buffer].size_bytes;
  for (size_t other = 0; other < problem_.buffers.size(); ++other) {
    const int64_t at = plan_.offsets[other];
    if (other == buffer || at >= end || at + problem_.buffers[other].size_bytes <= begin) continue;
    if (IsNeeded(other, when)) return false;
  }
  return true;
}

// Moves a buffer to the lowest place that is free then.
bool PlanRoom::Move(size_t moved, memory::Span when) {
  const memory::Buffer& buffer = problem_.buffers[moved];
  const int32_t stream = stream_of_[moved];
  if (buffer.fixed_offset >= 0 || !buffer.gaps.empty() || stream == kSeveral) return false;
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (size_t other = 0; other < problem_.buffers.size(); ++other) {
    const bool of_others = stream_of_[other] != stream;
    if (other == moved || (!of_others && !IsNeeded(other, when))) continue;
    taken.emplace_back(plan_.offsets[other], plan_.offsets[other] + problem_.buffers[other].size_bytes);
  }
  absl::c_sort(taken);
  int64_t at = 0;
  for (const auto& [begin, end] : taken) {
    if (begin >= at + buffer.size_bytes) break;
    at = std::max(at, memory::AlignUp(end, buffer.alignment));
  }
  if (at + buffer.size_bytes > plan_.arena_bytes) return false;
  plan_.offsets[moved] = at;
  return true;
}

}  // namespace snug::core
