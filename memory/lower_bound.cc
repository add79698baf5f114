#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "memory/problem.h"

namespace snug::core::memory {
namespace {

struct Change {
  int32_t time;
  int64_t rounded;  // negative where a buffer's stretch ends
  int64_t padding;  // what rounding added to the size
};

// A buffer that may be written over another one at its first position might need no bytes of its own there, so it
// counts only from the next position on.
std::vector<char> FreeAtFirst(const Problem& problem) {
  std::vector<char> free(problem.buffers.size(), 0);
  for (const InPlace& pair : problem.in_place) {
    const Buffer& output = problem.buffers[static_cast<size_t>(pair.output)];
    const Buffer& input = problem.buffers[static_cast<size_t>(pair.input)];
    if (input.last == output.first && output.size_bytes <= input.size_bytes) free[static_cast<size_t>(pair.output)] = 1;
  }
  return free;
}

// Times are mostly positions in an order: then they are counted, and nothing is compared.
void SortByTime(std::vector<Change>& changes) {
  int32_t first = std::numeric_limits<int32_t>::max(), last = std::numeric_limits<int32_t>::min();
  for (const Change& change : changes) {
    first = std::min(first, change.time);
    last = std::max(last, change.time);
  }
  const int64_t times = changes.empty() ? 0 : int64_t{last} - first + 1;
  if (times > 4 * static_cast<int64_t>(changes.size())) {
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
    return;
  }
  std::vector<size_t> begin(static_cast<size_t>(times) + 1, 0);
  for (const Change& change : changes) ++begin[static_cast<size_t>(change.time - first) + 1];
  for (size_t t = 1; t < begin.size(); ++t) begin[t] += begin[t - 1];
  std::vector<Change> sorted(changes.size());
  for (const Change& change : changes) sorted[begin[static_cast<size_t>(change.time - first)]++] = change;
  changes.swap(sorted);
}

}  // namespace

int64_t LowerBound(const Problem& problem) {
  int64_t unit = 0;  // every offset is a multiple of this
  for (const Buffer& b : problem.buffers) unit = std::gcd(unit, b.alignment);
  unit = std::max<int64_t>(unit, 1);

  const std::vector<char> free_at_first = FreeAtFirst(problem);
  std::vector<Change> changes;
  changes.reserve(2 * problem.buffers.size());
  int64_t bound = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    bound = std::max(bound, std::max<int64_t>(b.fixed_offset, 0) + b.size_bytes);
    if (b.size_bytes == 0) continue;
    const int64_t rounded = AlignUp(b.size_bytes, unit);
    const auto add = [&](int32_t first, int32_t last) {
      if (first > last) return;
      changes.push_back({first, rounded, rounded - b.size_bytes});
      changes.push_back({last + 1, -rounded, rounded - b.size_bytes});
    };
    int32_t live_from = b.first + (free_at_first[i] != 0 ? 1 : 0);
    for (const Span& gap : b.gaps) {
      add(live_from, gap.first - 1);
      live_from = gap.last + 1;
    }
    add(live_from, b.last);
  }
  SortByTime(changes);
  std::multiset<int64_t> paddings;  // those of the live buffers, where there are any
  int64_t load = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    const Change& change = changes[i];
    load += change.rounded;
    if (change.rounded > 0 && change.padding > 0) paddings.insert(change.padding);
    if (change.rounded < 0 && change.padding > 0) paddings.erase(paddings.find(change.padding));
    if (i + 1 < changes.size() && changes[i + 1].time == change.time) continue;
    bound = std::max(bound, load - (paddings.empty() ? 0 : *paddings.rbegin()));
  }
  return bound;
}

}  // namespace snug::core::memory
