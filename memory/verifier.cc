#include "memory/verifier.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace snug::core::memory {
namespace {

std::string Describe(const Problem& problem, const Plan& plan, size_t i) {
  const Buffer& b = problem.buffers[i];
  return absl::StrCat("\"", b.name, "\" (", b.size_bytes, " bytes at ", plan.offsets[i], ", live ", b.first, " to ",
                      b.last, ")");
}

absl::Status CheckBuffer(const Problem& problem, const Plan& plan, size_t i) {
  const Buffer& b = problem.buffers[i];
  const auto malformed = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", Describe(problem, plan, i), " is malformed: ", what));
  };
  if (b.first > b.last) return malformed("it ends before it begins");
  if (b.size_bytes < 0) return malformed("its size is negative");
  if (b.alignment < 1) return malformed(absl::StrCat("its alignment is ", b.alignment));
  int32_t live_from = b.first;
  for (const Span& gap : b.gaps) {
    if (gap.first <= live_from || gap.last < gap.first || gap.last >= b.last) {
      return malformed(absl::StrCat("its gap ", gap.first, " to ", gap.last, " is out of place"));
    }
    live_from = gap.last + 1;
  }
  const int64_t offset = plan.offsets[i];
  if (offset < 0 || offset % b.alignment != 0 || offset > plan.arena_bytes - b.size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", Describe(problem, plan, i), ": expected a multiple of ",
                                                   b.alignment, " inside the arena of ", plan.arena_bytes, " bytes"));
  }
  if (b.fixed_offset >= 0 && offset != b.fixed_offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", Describe(problem, plan, i), ": expected its fixed offset ", b.fixed_offset));
  }
  return absl::OkStatus();
}

struct Event {
  int32_t time;
  bool ends;  // an end at `time` comes after all begins at that position
  size_t buffer;
};

// Returns the end of the first stretch in which the buffer's bytes are needed.
int32_t FirstEnd(const Buffer& buffer) { return buffer.gaps.empty() ? buffer.last : buffer.gaps[0].first - 1; }

// Returns where every stretch in which a buffer's bytes are needed begins and ends, in the sequence in which that
// happens.
std::vector<Event> EventsOf(const Problem& problem) {
  std::vector<Event> events;
  events.reserve(2 * problem.buffers.size());
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.size_bytes == 0) continue;
    int32_t live_from = b.first;
    for (const Span& gap : b.gaps) {
      events.push_back({live_from, false, i});
      events.push_back({gap.first - 1, true, i});
      live_from = gap.last + 1;
    }
    events.push_back({live_from, false, i});
    events.push_back({b.last, true, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.ends != b.ends ? b.ends : a.buffer < b.buffer;
  });
  return events;
}

}  // namespace

absl::Status Verify(const Problem& problem, const Plan& plan) {
  const size_t n = problem.buffers.size();
  if (plan.offsets.size() != n) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", plan.offsets.size(), " offsets, expected ", n, ", one for each buffer"));
  }
  for (size_t i = 0; i < n; ++i) {
    if (absl::Status status = CheckBuffer(problem, plan, i); !status.ok()) return status;
  }
  std::set<std::pair<size_t, size_t>> in_place;  // output, input
  for (const InPlace& pair : problem.in_place) {
    in_place.emplace(static_cast<size_t>(pair.output), static_cast<size_t>(pair.input));
  }
  // The live ranges by offset. They never overlap, so looking at neighbours is enough. A buffer that is written in
  // place takes over the other's range when that one ends, because until then all of it is being read.
  std::map<int64_t, size_t> live;
  std::map<size_t, size_t> written_over;  // by what each buffer is written over
  for (const Event& event : EventsOf(problem)) {
    const size_t i = event.buffer;
    const Buffer& buffer = problem.buffers[i];
    const int64_t begin = plan.offsets[i];
    if (event.ends) {
      const auto found = live.find(begin);
      if (found == live.end() || found->second != i) continue;  // it was in place, and ended as soon as it began
      live.erase(found);
      const auto over = written_over.find(i);
      if (over == written_over.end()) continue;
      if (FirstEnd(problem.buffers[over->second]) > event.time) live.emplace(begin, over->second);
      continue;
    }
    const auto next = live.lower_bound(begin);
    if (next != live.end() && next->first == begin) {
      const Buffer& under = problem.buffers[next->second];
      const bool over_it = in_place.count({i, next->second}) > 0 && event.time == buffer.first &&
                           under.last == buffer.first && buffer.size_bytes <= under.size_bytes;
      if (over_it && written_over.emplace(next->second, i).second) continue;
    }
    const auto overlap = [&](size_t other) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffers ", Describe(problem, plan, i), " and ", Describe(problem, plan, other), " overlap"));
    };
    if (next != live.end() && next->first < begin + buffer.size_bytes) return overlap(next->second);
    if (next != live.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + problem.buffers[previous->second].size_bytes > begin) return overlap(previous->second);
    }
    live.emplace_hint(next, begin, i);
  }
  return absl::OkStatus();
}

}  // namespace snug::core::memory
