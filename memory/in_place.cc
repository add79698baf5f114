#include "memory/in_place.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "engine/base/status.h"
#include "memory/problem.h"

namespace snug::core::memory {
namespace {

// The bytes live over time. Ranges can be added to: it is a segment tree over the moments at which anything changes.
class LoadOverTime {
 public:
  explicit LoadOverTime(const Problem& problem) {
    for (const Buffer& buffer : problem.buffers) {
      ForEachLiveSpan(buffer, [&](int32_t first, int32_t last) {
        moments_.push_back(first);
        moments_.push_back(last);
        moments_.push_back(last + 1);
      });
    }
    std::sort(moments_.begin(), moments_.end());
    moments_.erase(std::unique(moments_.begin(), moments_.end()), moments_.end());
    nodes_.resize(4 * moments_.size() + 4);
    for (const Buffer& buffer : problem.buffers) AddWhereLive(buffer, buffer.size_bytes);
  }

  void AddWhereLive(const Buffer& buffer, int64_t bytes) {
    ForEachLiveSpan(buffer, [&](int32_t first, int32_t last) { Add(first, last, bytes); });
  }
  void Add(int32_t first, int32_t last, int64_t bytes) {
    Add(1, 0, moments_.size(), Index(first), Index(last) + 1, bytes);
  }
  int64_t Max(int32_t first, int32_t last) const { return Max(1, 0, moments_.size(), Index(first), Index(last) + 1); }

 private:
  struct TreeNode {
    int64_t max = 0;    // the range's maximum, without what was added to ranges around it
    int64_t added = 0;  // what was added to the whole range
  };

  size_t Index(int32_t moment) const {
    return static_cast<size_t>(std::lower_bound(moments_.begin(), moments_.end(), moment) - moments_.begin());
  }

  void Add(size_t node, size_t begin, size_t end, size_t from, size_t to, int64_t bytes) {
    if (to <= begin || end <= from) return;
    if (from <= begin && end <= to) {
      nodes_[node].max += bytes;
      nodes_[node].added += bytes;
      return;
    }
    const size_t middle = (begin + end) / 2;
    Add(2 * node, begin, middle, from, to, bytes);
    Add(2 * node + 1, middle, end, from, to, bytes);
    nodes_[node].max = std::max(nodes_[2 * node].max, nodes_[2 * node + 1].max) + nodes_[node].added;
  }

  int64_t Max(size_t node, size_t begin, size_t end, size_t from, size_t to) const {
    if (to <= begin || end <= from) return 0;
    if (from <= begin && end <= to) return nodes_[node].max;
    const size_t middle = (begin + end) / 2;
    return nodes_[node].added +
           std::max(Max(2 * node, begin, middle, from, to), Max(2 * node + 1, middle, end, from, to));
  }

  std::vector<int32_t> moments_;
  std::vector<TreeNode> nodes_;
};

// Returns the pairs that are possible at all, the most bytes first.
std::vector<InPlace> Candidates(const Problem& problem) {
  std::vector<InPlace> pairs;
  for (const InPlace& pair : problem.in_place) {
    const Buffer& output = problem.buffers[static_cast<size_t>(pair.output)];
    const Buffer& input = problem.buffers[static_cast<size_t>(pair.input)];
    const bool two_places =
        output.fixed_offset >= 0 && input.fixed_offset >= 0 && output.fixed_offset != input.fixed_offset;
    if (pair.output == pair.input || two_places) continue;
    if (output.first != input.last || output.size_bytes > input.size_bytes) continue;
    pairs.push_back(pair);
  }
  const auto key = [&](const InPlace& pair) {
    const Buffer& output = problem.buffers[static_cast<size_t>(pair.output)];
    return std::tuple(-output.size_bytes, output.first, pair.output, pair.input);
  };
  std::sort(pairs.begin(), pairs.end(), [&](const InPlace& a, const InPlace& b) { return key(a) < key(b); });
  return pairs;
}

// Chains of buffers in which each lies over the one before. A chain is named by its first buffer, and kept there as one
// buffer.
class Chains {
 public:
  Chains(const Problem& problem, SmallerOutputs smaller)
      : smaller_(smaller), load_(problem), whole_(problem.buffers), head_(problem.buffers.size()) {
    std::iota(head_.begin(), head_.end(), size_t{0});
    has_output_.resize(problem.buffers.size(), false);
  }

  void Join(size_t output, size_t input) {
    if (head_[output] != output || has_output_[input]) return;
    const size_t head = HeadOf(input);
    if (head == output) return;
    Buffer& under = whole_[head];
    const Buffer& over = whole_[output];
    if (under.fixed_offset >= 0 && over.fixed_offset >= 0 && under.fixed_offset != over.fixed_offset) return;
    // In place, the rest of the chain keeps these bytes beyond its own need.
    const int64_t longer = under.size_bytes - over.size_bytes;
    if (longer > 0 && smaller_ == SmallerOutputs::kWhereLoadFalls && !LoadFalls(over, longer)) return;
    load_.AddWhereLive(over, longer);
    load_.Add(over.first, over.first, -under.size_bytes);
    under.last = over.last;
    under.gaps.insert(under.gaps.end(), over.gaps.begin(), over.gaps.end());
    under.alignment = std::lcm(under.alignment, over.alignment);
    under.fixed_offset = std::max(under.fixed_offset, over.fixed_offset);
    head_[output] = head;
    has_output_[input] = true;
  }

  size_t HeadOf(size_t buffer) {
    while (head_[buffer] != buffer) buffer = head_[buffer] = head_[head_[buffer]];
    return buffer;
  }
  const Buffer& whole(size_t head) const { return whole_[head]; }

 private:
  bool LoadFalls(const Buffer& over, int64_t longer) const {
    int64_t later = 0;
    ForEachLiveSpan(over, [&](int32_t first, int32_t last) {
      const int32_t from = std::max(first, over.first + 1);  // at over.first, load_ still counts both buffers
      if (from <= last) later = std::max(later, load_.Max(from, last));
    });
    return later + longer < load_.Max(over.first, over.first);
  }

  SmallerOutputs smaller_;
  LoadOverTime load_;
  std::vector<Buffer> whole_;
  std::vector<size_t> head_;
  std::vector<bool> has_output_;
};

}  // namespace

Folded Fold(const Problem& problem, SmallerOutputs smaller) {
  Folded folded;
  const size_t n = problem.buffers.size();
  folded.buffer_of.resize(n);
  if (problem.in_place.empty()) {
    folded.problem = problem;
    std::iota(folded.buffer_of.begin(), folded.buffer_of.end(), 0);
    return folded;
  }
  Chains chains(problem, smaller);
  for (const InPlace& pair : Candidates(problem)) {
    chains.Join(static_cast<size_t>(pair.output), static_cast<size_t>(pair.input));
  }
  std::vector<int32_t> id_of(n, -1);
  for (size_t i = 0; i < n; ++i) {
    const size_t head = chains.HeadOf(i);
    if (id_of[head] < 0) {
      id_of[head] = static_cast<int32_t>(folded.problem.buffers.size());
      folded.problem.buffers.push_back(chains.whole(head));
    }
    folded.buffer_of[i] = id_of[head];
  }
  return folded;
}

Plan Unfold(const Folded& folded, const Plan& plan) {
  Plan unfolded{.arena_bytes = plan.arena_bytes};
  unfolded.offsets.reserve(folded.buffer_of.size());
  for (const int32_t buffer : folded.buffer_of) unfolded.offsets.push_back(plan.offsets[static_cast<size_t>(buffer)]);
  return unfolded;
}

absl::StatusOr<Placement> PlaceFolded(const Problem& problem, const PlannerOptions& options,
                                      absl::StatusOr<Placement> (*place)(const Problem&, const PlannerOptions&)) {
  if (problem.in_place.empty()) return place(problem, options);
  const Folded folded = Fold(problem);
  SNUG_ASSIGN_OR_RETURN(Placement placement, place(folded.problem, options));
  placement.plan = Unfold(folded, placement.plan);
  SearchReport& report = placement.report;
  report.lower_bound = LowerBound(problem);
  report.proven = placement.plan.arena_bytes <= report.lower_bound;
  for (CurvePoint& point : report.curve) point.lower_bound = std::min(point.lower_bound, report.lower_bound);
  return placement;
}

}  // namespace snug::core::memory
