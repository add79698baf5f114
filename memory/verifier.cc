#include "memory/verifier.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>

namespace snug::memory {
namespace {

std::string Describe(const Problem& problem, const Plan& plan, size_t i) {
  const Buffer& b = problem.buffers[i];
  return absl::StrCat("\"", b.name, "\" (", b.size_bytes, " bytes at ", plan.offsets[i], ", live ", b.first, " to ",
                      b.last, ")");
}

}  // namespace

absl::Status Verify(const Problem& problem, const Plan& plan) {
  const size_t n = problem.buffers.size();
  if (plan.offsets.size() != n) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", plan.offsets.size(), " offsets, expected ", n, ", one for each buffer"));
  }
  struct Event {
    int32_t time;
    bool ends;  // at the end of position `time`: after all begins of that position
    size_t buffer;
  };
  std::vector<Event> events;
  events.reserve(2 * n);
  for (size_t i = 0; i < n; ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.first > b.last || b.size_bytes < 0) {
      return absl::InvalidArgumentError(absl::StrCat("buffer ", Describe(problem, plan, i), " is malformed"));
    }
    if (plan.offsets[i] < 0 || plan.offsets[i] % b.alignment != 0 ||
        plan.offsets[i] > plan.arena_bytes - b.size_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("buffer ", Describe(problem, plan, i), ": expected a multiple of ",
                                                     b.alignment, " inside the arena of ", plan.arena_bytes, " bytes"));
    }
    if (b.size_bytes == 0) continue;
    events.push_back({b.first, false, i});
    events.push_back({b.last, true, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.ends != b.ends ? b.ends : a.buffer < b.buffer;
  });
  std::map<int64_t, size_t> live;  // by offset; never overlapping, so neighbours are enough to look at
  for (const Event& event : events) {
    const int64_t begin = plan.offsets[event.buffer];
    if (event.ends) {
      live.erase(begin);
      continue;
    }
    const auto next = live.lower_bound(begin);
    const auto overlap = [&](size_t other) {
      return absl::InvalidArgumentError(absl::StrCat("buffers ", Describe(problem, plan, event.buffer), " and ",
                                                     Describe(problem, plan, other), " overlap"));
    };
    if (next != live.end() && next->first < begin + problem.buffers[event.buffer].size_bytes)
      return overlap(next->second);
    if (next != live.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + problem.buffers[previous->second].size_bytes > begin) return overlap(previous->second);
    }
    live.emplace_hint(next, begin, event.buffer);
  }
  return absl::OkStatus();
}

}  // namespace snug::memory
