#include "memory/share/pool.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>

#include "engine/base/status.h"
#include "memory/in_place.h"
#include "memory/share/blocks.h"
#include "memory/share/none.h"

namespace snug::memory {
namespace {

// Buffers by the moment at which they need a block, the largest first; and by the moment at which they are done.
struct Timeline {
  explicit Timeline(const Problem& problem) : begins(problem.buffers.size()), ends(problem.buffers.size()) {
    std::iota(begins.begin(), begins.end(), 0);
    std::iota(ends.begin(), ends.end(), 0);
    const auto buffer = [&](int32_t i) -> const Buffer& { return problem.buffers[static_cast<size_t>(i)]; };
    std::sort(begins.begin(), begins.end(), [&](int32_t a, int32_t b) {
      return std::tuple(buffer(a).first, -buffer(a).size_bytes, a) <
             std::tuple(buffer(b).first, -buffer(b).size_bytes, b);
    });
    std::sort(ends.begin(), ends.end(),
              [&](int32_t a, int32_t b) { return std::tuple(buffer(a).last, a) < std::tuple(buffer(b).last, b); });
  }
  std::vector<int32_t> begins, ends;
};

Plan Simulate(const Problem& problem, const Timeline& timeline, int match_range) {
  BlockPool pool;
  std::vector<int32_t> block_of(problem.buffers.size(), -1);
  size_t done = 0;
  for (const int32_t i : timeline.begins) {
    const Buffer& buffer = problem.buffers[static_cast<size_t>(i)];
    for (; done < timeline.ends.size(); ++done) {
      const auto ended = static_cast<size_t>(timeline.ends[done]);
      if (problem.buffers[ended].last >= buffer.first) break;
      if (block_of[ended] >= 0) pool.GiveBack(block_of[ended]);
    }
    if (buffer.size_bytes == 0) continue;
    int32_t& block = block_of[static_cast<size_t>(i)];
    block = pool.Take(buffer.size_bytes, match_range);
    if (block < 0) block = pool.Open(buffer.size_bytes);
  }
  return LayBlocksSideBySide(problem, block_of);
}

Plan Share(const Problem& problem, int match_range) {
  const Timeline timeline(problem);
  if (match_range >= 0) return Simulate(problem, timeline, match_range);
  int64_t smallest = std::numeric_limits<int64_t>::max();
  int64_t largest = 1;
  for (const Buffer& buffer : problem.buffers) {
    if (buffer.size_bytes == 0) continue;
    smallest = std::min(smallest, buffer.size_bytes);
    largest = std::max(largest, buffer.size_bytes);
  }
  Plan best = Simulate(problem, timeline, 1);
  constexpr int kWidest = 1 << 30;  // every block is in range of every buffer long before
  for (int range = 2; range < kWidest && range / 2 <= largest / smallest; range *= 2) {
    Plan plan = Simulate(problem, timeline, range);
    if (plan.arena_bytes < best.arena_bytes) best = std::move(plan);
  }
  return best;
}

}  // namespace

int32_t BlockPool::Take(int64_t size_bytes, int match_range) {
  if (match_range == 0) return -1;
  const auto smallest_of_size = [&](int64_t at_least) {
    return free_.lower_bound({at_least, std::numeric_limits<int64_t>::max(), -1});
  };
  auto taken = smallest_of_size(size_bytes);
  // Rounded up: whether its size is above size_bytes x match_range, without the overflow.
  if (taken == free_.end() || (taken->size_bytes + match_range - 1) / match_range > size_bytes) {
    if (taken == free_.begin()) return -1;
    taken = smallest_of_size(std::prev(taken)->size_bytes);
    if (taken->size_bytes < size_bytes / match_range) return -1;
  }
  const int32_t block = taken->block;
  free_.erase(taken);
  int64_t& size = size_of_[static_cast<size_t>(block)];
  size = std::max(size, size_bytes);
  return block;
}

int32_t BlockPool::Open(int64_t size_bytes) {
  size_of_.push_back(size_bytes);
  return static_cast<int32_t>(size_of_.size()) - 1;
}

void BlockPool::GiveBack(int32_t block) { free_.insert({size_of_[static_cast<size_t>(block)], given_back_++, block}); }

absl::StatusOr<Placement> PlaceInPlace(const Problem& problem, const PlannerOptions&) {
  SNUG_RETURN_IF_ERROR(CheckNoFixedOffsets(problem, "inplace"));
  const Folded folded = Fold(problem, SmallerOutputs::kAlways);
  return WithBound(problem, Unfold(folded, PlanNone(folded.problem)));
}

absl::StatusOr<Placement> PlaceShare(const Problem& problem, const PlannerOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckNoFixedOffsets(problem, "share"));
  return WithBound(problem, Share(problem, options.match_range));
}

absl::StatusOr<Placement> PlaceBoth(const Problem& problem, const PlannerOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckNoFixedOffsets(problem, "both"));
  const Folded folded = Fold(problem);
  return WithBound(problem, Unfold(folded, Share(folded.problem, options.match_range)));
}

}  // namespace snug::memory
