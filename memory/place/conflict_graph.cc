#include "memory/place/conflict_graph.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "engine/base/status.h"
#include "memory/share/use_order.h"

namespace snug::core::memory {

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
  for (ConflictGraph::Item& item : items.graph.items) {  // a pair of companions may have brought some in twice
    std::sort(item.conflicts.begin(), item.conflicts.end());
    item.conflicts.erase(std::unique(item.conflicts.begin(), item.conflicts.end()), item.conflicts.end());
  }
  return items;
}

namespace {

constexpr int64_t kCliqueWork = 100'000'000;

class Cliques {
 public:
  Cliques(const ConflictGraph& graph, const PlannerOptions& options)
      : graph_(graph), options_(options), n_(graph.items.size()), start_(std::chrono::steady_clock::now()) {
    conflict_.resize(n_ * n_, false);
    for (size_t i = 0; i < n_; ++i) {
      for (const int32_t other : graph.items[i].conflicts) conflict_[i * n_ + static_cast<size_t>(other)] = true;
    }
    std::vector<int32_t> largest_first(n_);
    std::iota(largest_first.begin(), largest_first.end(), 0);
    std::stable_sort(largest_first.begin(), largest_first.end(),
                     [&](int32_t a, int32_t b) { return Bytes(a) > Bytes(b); });
    rank_.resize(n_);
    for (size_t r = 0; r < n_; ++r) rank_[static_cast<size_t>(largest_first[r])] = static_cast<int32_t>(r);
  }

  // The most promising items come first; items that cannot be in a heavier clique are left out.
  SearchReport Find() {
    std::vector<int64_t> most(n_);  // the most bytes that a clique with the item can have
    for (size_t i = 0; i < n_; ++i) most[i] = graph_.items[i].size_bytes + BytesOf(graph_.items[i].conflicts);
    std::vector<int32_t> sequence(n_);
    std::iota(sequence.begin(), sequence.end(), 0);
    std::stable_sort(sequence.begin(), sequence.end(),
                     [&](int32_t a, int32_t b) { return most[static_cast<size_t>(a)] > most[static_cast<size_t>(b)]; });
    const int64_t limit = options_.work_limit > 0 ? options_.work_limit : kCliqueWork;
    for (const int32_t item : sequence) {
      if (most[static_cast<size_t>(item)] <= report_.lower_bound || report_.work >= limit || TimeIsUp()) break;
      Grow(item);
    }
    return report_;
  }

 private:
  int64_t Bytes(int32_t item) const { return graph_.items[static_cast<size_t>(item)].size_bytes; }
  int64_t BytesOf(const std::vector<int32_t>& items) const {
    return std::accumulate(items.begin(), items.end(), int64_t{0},
                           [&](int64_t sum, int32_t item) { return sum + Bytes(item); });
  }

  // Grows a clique from `first`: again and again takes the largest item that conflicts with all taken so far.
  void Grow(int32_t first) {
    int64_t clique = Bytes(first);
    std::vector<int32_t> candidates = graph_.items[static_cast<size_t>(first)].conflicts;
    std::sort(candidates.begin(), candidates.end(),
              [&](int32_t a, int32_t b) { return rank_[static_cast<size_t>(a)] < rank_[static_cast<size_t>(b)]; });
    std::vector<int32_t> rest;
    while (!candidates.empty() && clique + BytesOf(candidates) > report_.lower_bound) {
      const auto next = static_cast<size_t>(candidates.front());
      clique += graph_.items[next].size_bytes;
      rest.clear();
      for (const int32_t c : candidates) {
        if (conflict_[next * n_ + static_cast<size_t>(c)]) rest.push_back(c);
      }
      report_.work += static_cast<int64_t>(candidates.size());
      candidates.swap(rest);
    }
    report_.lower_bound = std::max(report_.lower_bound, clique);
  }

  bool TimeIsUp() {
    if (options_.time_limit <= 0) return false;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    // The other half of the time is for the placement.
    report_.clock_stopped = passed.count() >= options_.time_limit / 2;
    return report_.clock_stopped;
  }

  const ConflictGraph& graph_;
  const PlannerOptions& options_;
  const size_t n_;
  std::chrono::steady_clock::time_point start_;
  std::vector<bool> conflict_;
  std::vector<int32_t> rank_;  // the item's rank by size
  SearchReport report_;
};

}  // namespace

SearchReport FindCliques(const ConflictGraph& graph, const PlannerOptions& options) {
  return Cliques(graph, options).Find();
}

}  // namespace snug::core::memory
