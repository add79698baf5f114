#include "memory/share/use_order.h"

#include <algorithm>

#include "engine/base/status.h"

namespace snug::core::memory {
namespace {

// Returns for each task how many tasks come before it on the longest path to it.
std::vector<int32_t> Levels(const PartialProblem& problem, const PartialOrder& order) {
  std::vector<std::vector<int32_t>> after(static_cast<size_t>(problem.tasks));
  for (const auto& [a, b] : problem.edges) after[static_cast<size_t>(a)].push_back(b);
  std::vector<int32_t> level(after.size(), 0);
  for (const int32_t task : order.sequence()) {
    for (const int32_t next : after[static_cast<size_t>(task)]) {
      int32_t& next_level = level[static_cast<size_t>(next)];
      next_level = std::max(next_level, level[static_cast<size_t>(task)] + 1);
    }
  }
  return level;
}

bool AllBefore(const PartialOrder& order, const std::vector<int32_t>& tails, const std::vector<int32_t>& heads) {
  return std::all_of(tails.begin(), tails.end(), [&](int32_t tail) {
    return std::all_of(heads.begin(), heads.end(), [&](int32_t head) { return order.Before(tail, head); });
  });
}

}  // namespace

UseOrder UseOrder::Serial(const Problem& problem) {
  UseOrder uses;
  for (const Buffer& buffer : problem.buffers) {
    uses.begin_.push_back(buffer.first);
    uses.end_.push_back(buffer.last);
    uses.longest_ = std::max<int64_t>(uses.longest_, int64_t{buffer.last} + 1);
  }
  uses.kind_.resize(problem.buffers.size(), 0);
  return uses;
}

absl::StatusOr<UseOrder> UseOrder::Partial(const PartialProblem& problem) {
  SNUG_RETURN_IF_ERROR(CheckPartialProblem(problem));
  SNUG_ASSIGN_OR_RETURN(const PartialOrder order, PartialOrder::Create(problem.tasks, problem.edges));
  const std::vector<int32_t> levels = Levels(problem, order);
  const auto level = [&](int32_t task) { return levels[static_cast<size_t>(task)]; };
  UseOrder uses;
  uses.longest_ = problem.tasks;
  for (const PartialBuffer& buffer : problem.buffers) {
    int32_t begin = 0;
    for (const int32_t head : buffer.heads) begin = std::max(begin, level(head));
    int32_t end = problem.tasks;
    for (const int32_t tail : buffer.tails) end = std::min(end, level(tail));
    uses.begin_.push_back(begin);
    uses.end_.push_back(end);
    uses.kind_.push_back(buffer.kind);
  }
  const size_t n = problem.buffers.size();
  uses.before_.resize(std::max<size_t>(n * n, 1), false);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < n; ++b) {
      // The cheap test comes first: along a path the level rises.
      if (a == b || uses.end_[a] >= uses.begin_[b]) continue;
      uses.before_[a * n + b] = AllBefore(order, problem.buffers[a].tails, problem.buffers[b].heads);
    }
  }
  return uses;
}

std::vector<int32_t> UseOrder::Interferences() const {
  std::vector<int32_t> counts(size(), 0);
  if (!before_.empty()) {
    for (size_t a = 0; a < size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (!Interfere(a, b)) continue;
        ++counts[a];
        ++counts[b];
      }
    }
    return counts;
  }
  std::vector<int32_t> begins = begin_;
  std::vector<int32_t> ends = end_;
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  for (size_t a = 0; a < size(); ++a) {
    const auto ended = std::lower_bound(ends.begin(), ends.end(), begin_[a]) - ends.begin();
    const auto not_begun = begins.end() - std::upper_bound(begins.begin(), begins.end(), end_[a]);
    counts[a] = static_cast<int32_t>(static_cast<std::ptrdiff_t>(size()) - 1 - ended - not_begun);
  }
  return counts;
}

}  // namespace snug::core::memory
