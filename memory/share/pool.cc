#include "memory/share/pool.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <tuple>

#include "engine/base/status.h"
#include "memory/in_place.h"
#include "memory/share/blocks.h"

namespace snug::core::memory {
namespace {

Plan Simulate(const Problem& problem, const Timeline& timeline, int match_range) {
  SharedBlocks pool;
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
    block = pool.Take(buffer.size_bytes, match_range, [](int32_t) { return true; });
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
  constexpr int kWidest = 1 << 30;  // long before this, every block is in range of every buffer
  for (int range = 2; range < kWidest && range / 2 <= largest / smallest; range *= 2) {
    Plan plan = Simulate(problem, timeline, range);
    if (plan.arena_bytes < best.arena_bytes) best = std::move(plan);
  }
  return best;
}

}  // namespace

Timeline::Timeline(const Problem& problem) : begins(problem.buffers.size()), ends(problem.buffers.size()) {
  std::iota(begins.begin(), begins.end(), 0);
  std::iota(ends.begin(), ends.end(), 0);
  const auto buffer = [&](int32_t i) -> const Buffer& { return problem.buffers[static_cast<size_t>(i)]; };
  const auto begin = [&](int32_t i) { return std::tuple(buffer(i).first, -buffer(i).size_bytes, i); };
  const auto end = [&](int32_t i) { return std::tuple(buffer(i).last, i); };
  std::sort(begins.begin(), begins.end(), [&](int32_t a, int32_t b) { return begin(a) < begin(b); });
  std::sort(ends.begin(), ends.end(), [&](int32_t a, int32_t b) { return end(a) < end(b); });
}

int32_t SharedBlocks::Take(int64_t size_bytes, int match_range, const std::function<bool(int32_t block)>& suits) {
  if (match_range == 0) return -1;
  constexpr int64_t kNewest = std::numeric_limits<int64_t>::max();
  const auto fitting = free_.lower_bound({size_bytes, kNewest, -1});
  // Compares the size with size_bytes x match_range; dividing, rounded up, avoids the overflow.
  const auto too_large = [&](const Free& f) { return (f.size_bytes + match_range - 1) / match_range > size_bytes; };
  auto found = free_.end();
  for (auto f = fitting; f != free_.end() && !too_large(*f) && found == free_.end(); ++f) {
    if (suits(f->block)) found = f;
  }
  // Takes the largest of the smaller blocks; of equal ones the one given back last.
  for (auto below = fitting; below != free_.begin() && found == free_.end();) {
    const int64_t size = std::prev(below)->size_bytes;
    if (size < size_bytes / match_range) break;
    const auto of_size = free_.lower_bound({size, kNewest, -1});
    for (auto f = of_size; f != below && found == free_.end(); ++f) {
      if (suits(f->block)) found = f;
    }
    below = of_size;
  }
  if (found == free_.end()) return -1;
  const int32_t block = found->block;
  free_.erase(found);
  int64_t& size = size_of_[static_cast<size_t>(block)];
  size = std::max(size, size_bytes);
  return block;
}

int32_t SharedBlocks::Open(int64_t size_bytes) {
  size_of_.push_back(size_bytes);
  return static_cast<int32_t>(size_of_.size()) - 1;
}

void SharedBlocks::GiveBack(int32_t block) {
  free_.insert({size_of_[static_cast<size_t>(block)], given_back_++, block});
}

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

}  // namespace snug::core::memory
