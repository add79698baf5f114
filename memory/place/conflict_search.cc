// Implements PlaceConflicts (conflict_graph.h): the sequences, and the search over them.
#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "memory/place/below_top.h"
#include "memory/place/conflict_graph.h"
#include "memory/place/placers.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kConflictSearchWork = 20'000'000;

enum class Gap { kLowest, kTightest };

// Places items one after the other among their placed neighbours.
class Placer {
 public:
  explicit Placer(const ConflictGraph& graph) : graph_(graph), offsets_(graph.items.size()) {}

  // Returns the highest end; gives up with anything >= `limit` once that is reached.
  int64_t Place(const std::vector<int32_t>& sequence, Gap gap, int64_t limit) {
    std::fill(offsets_.begin(), offsets_.end(), kUnplaced);
    int64_t total = 0;
    for (const int32_t item : sequence) {
      const auto i = static_cast<size_t>(item);
      offsets_[i] = FindOffset(graph_.items[i], gap);
      total = std::max(total, offsets_[i] + graph_.items[i].size_bytes);
      if (total >= limit) break;
    }
    return total;
  }

  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t work() const { return work_; }

 private:
  static constexpr int64_t kUnplaced = -1;

  int64_t FindOffset(const ConflictGraph::Item& item, Gap gap) {
    taken_.clear();
    for (const int32_t other : item.conflicts) {
      const auto o = static_cast<size_t>(other);
      if (offsets_[o] != kUnplaced) taken_.emplace_back(offsets_[o], offsets_[o] + graph_.items[o].size_bytes);
    }
    work_ += static_cast<int64_t>(item.conflicts.size()) + 1;
    std::sort(taken_.begin(), taken_.end());
    int64_t found = -1;
    int64_t found_room = std::numeric_limits<int64_t>::max();
    int64_t free_from = 0;
    for (const auto& [begin, end] : taken_) {
      const int64_t offset = AlignUp(free_from, item.alignment);
      if (offset + item.size_bytes <= begin && begin - free_from < found_room) {
        found = offset;
        found_room = begin - free_from;
        if (gap == Gap::kLowest) return found;
      }
      free_from = std::max(free_from, end);
    }
    return found >= 0 ? found : AlignUp(free_from, item.alignment);
  }

  const ConflictGraph& graph_;
  std::vector<int64_t> offsets_;
  std::vector<std::pair<int64_t, int64_t>> taken_;
  int64_t work_ = 0;
};

// Sorts items by a key, the largest first; ties go to the smaller id.
template <typename Key>
std::vector<int32_t> LargestFirst(size_t n, const Key& key) {
  std::vector<int32_t> sequence(n);
  std::iota(sequence.begin(), sequence.end(), 0);
  std::stable_sort(sequence.begin(), sequence.end(),
                   [&](int32_t a, int32_t b) { return key(static_cast<size_t>(a)) > key(static_cast<size_t>(b)); });
  return sequence;
}

std::vector<std::vector<int32_t>> Sequences(const ConflictGraph& graph, const std::vector<int64_t>& start) {
  const size_t n = graph.items.size();
  const auto size = [&](size_t i) { return graph.items[i].size_bytes; };
  const auto degree = [&](size_t i) { return static_cast<int64_t>(graph.items[i].conflicts.size()); };
  std::vector<int64_t> weight(n, 0);  // the size of the item and of all that it conflicts with
  for (size_t i = 0; i < n; ++i) {
    weight[i] = size(i);
    for (const int32_t other : graph.items[i].conflicts) weight[i] += size(static_cast<size_t>(other));
  }
  std::vector<std::vector<int32_t>> sequences;
  sequences.push_back(LargestFirst(n, [&](size_t i) { return std::pair(size(i), degree(i)); }));
  sequences.push_back(LargestFirst(n, [&](size_t i) { return std::pair(size(i), -static_cast<int64_t>(i)); }));
  sequences.push_back(LargestFirst(n, [&](size_t i) { return std::pair(size(i), static_cast<int64_t>(i)); }));
  sequences.push_back(
      LargestFirst(n, [&](size_t i) { return static_cast<double>(size(i)) * static_cast<double>(1 + degree(i)); }));
  sequences.push_back(LargestFirst(n, [&](size_t i) { return std::pair(weight[i], size(i)); }));
  sequences.push_back(LargestFirst(n, [&](size_t i) { return std::pair(degree(i), size(i)); }));
  // Placing a placement's items again from the bottom up never makes it higher.
  if (!start.empty()) sequences.push_back(LargestFirst(n, [&](size_t i) { return -start[i]; }));
  return sequences;
}

// Keeps the best placement, and how it was found.
class ConflictSearch {
 public:
  ConflictSearch(const ConflictGraph& graph, const PlannerOptions& options)
      : graph_(graph), options_(options), placer_(graph), start_(std::chrono::steady_clock::now()) {
    const SearchReport cliques = FindCliques(graph, options);
    placement_.report.lower_bound = cliques.lower_bound;
    placement_.report.clock_stopped = cliques.clock_stopped;
    placement_.plan.arena_bytes = std::numeric_limits<int64_t>::max();
    target_ = std::max(placement_.report.lower_bound, options.capacity);
    work_limit_ = options.work_limit > 0 ? options.work_limit : kConflictSearchWork;
  }

  void Offer(const std::vector<int64_t>& offsets, int64_t total) {
    if (total >= placement_.plan.arena_bytes) return;
    placement_.plan = {.offsets = offsets, .arena_bytes = total};
    placement_.report.curve.push_back({Seconds(), total, placement_.report.lower_bound});
  }

  void TrySequences(const std::vector<std::vector<int32_t>>& sequences) {
    for (const std::vector<int32_t>& sequence : sequences) {
      for (const Gap gap : {Gap::kLowest, Gap::kTightest}) {
        if (!placement_.plan.offsets.empty() && Done()) return;
        const int64_t total = placer_.Place(sequence, gap, placement_.plan.arena_bytes);
        if (total < placement_.plan.arena_bytes) Offer(placer_.offsets(), total);
      }
    }
  }

  // Moves an item at the top, or one below such an item, to an earlier place in the sequence, and keeps the result if
  // it is no worse. The sequence is that of the best placement from the bottom up.
  void Improve() {
    const size_t n = graph_.items.size();
    if (n < 2) return;
    std::vector<int32_t> sequence = LargestFirst(n, [&](size_t i) { return -placement_.plan.offsets[i]; });
    if (Done()) return;
    int64_t total = placer_.Place(sequence, Gap::kLowest, std::numeric_limits<int64_t>::max());
    Offer(placer_.offsets(), total);
    std::mt19937 random(1);
    std::vector<int64_t> offsets = placer_.offsets();
    while (!Done()) {
      const size_t from = PickNearTop(sequence, offsets, total, random);
      const size_t to = random() % (from + 1);
      std::rotate(sequence.begin() + static_cast<std::ptrdiff_t>(to),
                  sequence.begin() + static_cast<std::ptrdiff_t>(from),
                  sequence.begin() + static_cast<std::ptrdiff_t>(from) + 1);
      const int64_t moved = placer_.Place(sequence, Gap::kLowest, total + 1);
      if (moved <= total) {
        total = moved;
        offsets = placer_.offsets();
        Offer(offsets, total);
      } else {
        std::rotate(sequence.begin() + static_cast<std::ptrdiff_t>(to),
                    sequence.begin() + static_cast<std::ptrdiff_t>(to) + 1,
                    sequence.begin() + static_cast<std::ptrdiff_t>(from) + 1);
      }
    }
  }

  bool Done() {
    if (placement_.plan.arena_bytes <= target_ || placer_.work() >= work_limit_) return true;
    if (options_.time_limit <= 0 || Seconds() < options_.time_limit) return false;
    placement_.report.clock_stopped = true;
    return true;
  }

  Placement Finish() {
    placement_.report.proven = placement_.plan.arena_bytes == placement_.report.lower_bound;
    placement_.report.work = placer_.work();
    placement_.report.seconds = Seconds();
    return std::move(placement_);
  }

 private:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  // Returns the place in the sequence of an item at the top, or of one that it rests on.
  size_t PickNearTop(const std::vector<int32_t>& sequence, const std::vector<int64_t>& offsets, int64_t total,
                     std::mt19937& random) const {
    const auto end = [&](size_t i) { return offsets[i] + graph_.items[i].size_bytes; };
    const auto rest = [&](size_t item, const auto& visit) {
      for (const int32_t other : graph_.items[item].conflicts) {
        if (end(static_cast<size_t>(other)) == offsets[item]) visit(static_cast<size_t>(other));
      }
    };
    const size_t picked = PickBelowTop(
        offsets.size(), [&](size_t i) { return end(i) == total; }, rest, [&] { return random() % 2 == 0; }, random);
    const auto at = std::find(sequence.begin(), sequence.end(), static_cast<int32_t>(picked));
    return static_cast<size_t>(at - sequence.begin());
  }

  const ConflictGraph& graph_;
  const PlannerOptions& options_;
  Placer placer_;
  std::chrono::steady_clock::time_point start_;
  Placement placement_;
  int64_t target_ = 0;
  int64_t work_limit_ = 0;
};

}  // namespace

Placement PlaceConflicts(const ConflictGraph& graph, const std::vector<int64_t>& start, const PlannerOptions& options) {
  if (graph.items.empty()) return {.report = {.proven = true}};
  ConflictSearch search(graph, options);
  if (!start.empty()) {
    int64_t total = 0;
    for (size_t i = 0; i < start.size(); ++i) total = std::max(total, start[i] + graph.items[i].size_bytes);
    search.Offer(start, total);
  }
  search.TrySequences(Sequences(graph, start));
  search.Improve();
  return search.Finish();
}

}  // namespace snug::core::memory
