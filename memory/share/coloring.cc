#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "engine/base/status.h"
#include "memory/in_place.h"
#include "memory/problem.h"
#include "memory/share/blocks.h"

namespace snug::core::memory {
namespace {

// The stretches of time in which one colour is taken, as a map from first to last moment.
class Taken {
 public:
  // Takes the moments that the buffer needs if all of them are free.
  bool Take(const Buffer& buffer) {
    bool free = true;
    ForEachLiveSpan(buffer, [&](int32_t first, int32_t last) { free = free && IsFree(first, last); });
    if (free) ForEachLiveSpan(buffer, [&](int32_t first, int32_t last) { taken_.emplace(first, last); });
    return free;
  }

 private:
  bool IsFree(int32_t first, int32_t last) const {
    const auto next = taken_.upper_bound(last);
    return next == taken_.begin() || std::prev(next)->second < first;
  }

  std::map<int32_t, int32_t> taken_;
};

Plan Color(const Problem& problem) {
  std::vector<size_t> largest_first(problem.buffers.size());
  std::iota(largest_first.begin(), largest_first.end(), size_t{0});
  const auto key = [&](size_t i) { return std::tuple(-problem.buffers[i].size_bytes, problem.buffers[i].first, i); };
  std::sort(largest_first.begin(), largest_first.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<int32_t> color_of(problem.buffers.size(), -1);
  std::vector<Taken> colors;
  for (const size_t i : largest_first) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.size_bytes == 0) break;
    // The newest colour is the smallest block, so the search begins there.
    auto color = std::find_if(colors.rbegin(), colors.rend(), [&](Taken& taken) { return taken.Take(buffer); });
    if (color == colors.rend()) {
      colors.emplace_back().Take(buffer);
      color = colors.rbegin();
    }
    color_of[i] = static_cast<int32_t>(colors.rend() - color) - 1;
  }
  return LayBlocksSideBySide(problem, color_of);
}

}  // namespace

absl::StatusOr<Placement> PlaceColoring(const Problem& problem, const PlannerOptions&) {
  SNUG_RETURN_IF_ERROR(CheckNoFixedOffsets(problem, "coloring"));
  const Folded folded = Fold(problem);
  return WithBound(problem, Unfold(folded, Color(folded.problem)));
}

}  // namespace snug::core::memory
