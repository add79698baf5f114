#include "memory/place/conflict_graph.h"

#include <algorithm>
#include <numeric>

#include "engine/base/status.h"
#include "memory/share/use_order.h"

namespace snug::memory {

absl::StatusOr<PartialItems> ItemsOf(const PartialProblem& problem) {
  SNUG_ASSIGN_OR_RETURN(const UseOrder uses, UseOrder::Partial(problem));
  PartialItems items{.item_of = std::vector<int32_t>(problem.buffers.size(), -1)};
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const PartialBuffer& buffer = problem.buffers[i];
    if (buffer.size_bytes == 0) continue;
    const int32_t with = buffer.companion < 0 ? -1 : items.item_of[static_cast<size_t>(buffer.companion)];
    items.item_of[i] = with >= 0 ? with : static_cast<int32_t>(items.graph.items.size());
    if (with < 0) items.graph.items.emplace_back();
    ConflictGraph::Item& item = items.graph.items[static_cast<size_t>(items.item_of[i])];
    item.size_bytes = std::max(item.size_bytes, buffer.size_bytes);
    item.alignment = std::lcm(item.alignment, buffer.alignment);
  }
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    for (size_t j = 0; j < problem.buffers.size(); ++j) {
      const int32_t a = items.item_of[i];
      const int32_t b = items.item_of[j];
      if (a < 0 || b < 0 || a == b || (uses.SameKind(i, j) && !uses.Interfere(i, j))) continue;
      items.graph.items[static_cast<size_t>(a)].conflicts.push_back(b);
    }
  }
  for (ConflictGraph::Item& item : items.graph.items) {  // companions may have brought some in twice
    std::sort(item.conflicts.begin(), item.conflicts.end());
    item.conflicts.erase(std::unique(item.conflicts.begin(), item.conflicts.end()), item.conflicts.end());
  }
  return items;
}

int64_t LowerBound(const ConflictGraph& graph) {
  const size_t n = graph.items.size();
  std::vector<bool> conflict(n * n, false);
  for (size_t i = 0; i < n; ++i) {
    for (const int32_t other : graph.items[i].conflicts) conflict[i * n + static_cast<size_t>(other)] = true;
  }
  std::vector<int32_t> largest_first(n);
  std::iota(largest_first.begin(), largest_first.end(), 0);
  std::stable_sort(largest_first.begin(), largest_first.end(), [&](int32_t a, int32_t b) {
    return graph.items[static_cast<size_t>(a)].size_bytes > graph.items[static_cast<size_t>(b)].size_bytes;
  });
  std::vector<int32_t> rank(n);
  for (size_t r = 0; r < n; ++r) rank[static_cast<size_t>(largest_first[r])] = static_cast<int32_t>(r);
  int64_t best = 0;
  std::vector<int32_t> candidates;
  std::vector<int32_t> rest;
  for (const ConflictGraph::Item& first : graph.items) {
    int64_t clique = first.size_bytes;
    candidates = first.conflicts;
    std::sort(candidates.begin(), candidates.end(),
              [&](int32_t a, int32_t b) { return rank[static_cast<size_t>(a)] < rank[static_cast<size_t>(b)]; });
    while (!candidates.empty()) {
      const auto next = static_cast<size_t>(candidates.front());
      clique += graph.items[next].size_bytes;
      rest.clear();
      for (const int32_t c : candidates) {
        if (conflict[next * n + static_cast<size_t>(c)]) rest.push_back(c);
      }
      candidates.swap(rest);
    }
    best = std::max(best, clique);
  }
  return best;
}

}  // namespace snug::memory
