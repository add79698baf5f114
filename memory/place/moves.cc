#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "memory/place/below_top.h"
#include "memory/place/list_placer.h"
#include "memory/place/placers.h"
#include "memory/race.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kMaxPairsToMove = 4'000'000;  // with more pairs, thousands of lists take too long
constexpr int kChains = 4;
constexpr double kSlack = 0.005;  // how much worse than the best a chain may get at first; shrinks to 0

// Walks from sequence to sequence.
class Chain {
 public:
  Chain(const Instance& instance, const Conflicts& conflicts, uint32_t seed)
      : instance_(instance), conflicts_(conflicts), placer_(instance, conflicts), random_(seed) {}

  // Returns whether `enough` was reached.
  template <typename Stop>
  bool Run(const std::vector<int64_t>& start, int64_t enough, int64_t work, const Stop& stop) {
    // A placement's items, placed again from the bottom up, end no higher.
    sequence_.resize(instance_.size());
    std::iota(sequence_.begin(), sequence_.end(), 0);
    std::stable_sort(sequence_.begin(), sequence_.end(), [&](int32_t a, int32_t b) {
      return start[static_cast<size_t>(a)] < start[static_cast<size_t>(b)];
    });
    Accept(placer_.Place(sequence_, GapRule::kFirst, ListPlacer::kNoLimit));
    for (int64_t moves = 0; total_ > enough && !stop(); ++moves) {
      const int64_t spent = placer_.work() + moves * static_cast<int64_t>(instance_.size());
      if (spent >= work) break;
      const double left = 1 - static_cast<double>(spent) / static_cast<double>(work);
      const auto limit = static_cast<int64_t>(static_cast<double>(best_total_) * (1 + kSlack * left));
      Move(std::max(total_, limit));
    }
    return best_total_ <= enough;
  }

  int64_t total() const { return best_total_; }
  const std::vector<int64_t>& offsets() const { return best_; }
  int64_t work() const { return placer_.work(); }

 private:
  int64_t EndOf(size_t item) const {
    return offsets_[item] + instance_.items[item].size - instance_.items[item].padding;
  }

  void Accept(int64_t total) {
    total_ = total;
    offsets_ = placer_.offsets();
    if (!best_.empty() && total >= best_total_) return;
    best_ = offsets_;
    best_total_ = total;
  }

  // Moves an item that the top rests on to an earlier place, and keeps that if the total is at most `limit`.
  void Move(int64_t limit) {
    const auto item = static_cast<int32_t>(PickItem());
    const auto from = std::find(sequence_.begin(), sequence_.end(), item);
    const auto to = sequence_.begin() +
                    static_cast<std::ptrdiff_t>(random_() % (static_cast<size_t>(from - sequence_.begin()) + 1));
    std::rotate(to, from, from + 1);
    const int64_t moved = placer_.Place(sequence_, GapRule::kFirst, limit + 1);
    if (moved <= limit) return Accept(moved);
    std::rotate(to, to + 1, from + 1);
  }

  size_t PickItem() {
    const auto rest = [&](size_t item, const auto& visit) {
      const auto index = static_cast<int32_t>(item);
      for (const int32_t* at = conflicts_.First(index); at != conflicts_.Last(index); ++at) {
        const auto other = static_cast<size_t>(*at);
        if (offsets_[other] + instance_.items[other].size == offsets_[item]) visit(other);
      }
    };
    return PickBelowTop(
        offsets_.size(), [&](size_t i) { return EndOf(i) == total_; }, rest, [&] { return random_() % 4 != 0; },
        random_);
  }

  const Instance& instance_;
  const Conflicts& conflicts_;
  ListPlacer placer_;
  std::mt19937 random_;
  std::vector<int32_t> sequence_;
  std::vector<int64_t> offsets_, best_;
  int64_t total_ = 0, best_total_ = 0;
};

}  // namespace

void ImproveByMoves(const PlannerOptions& options, int64_t work, Progress* progress) {
  if (progress->Done()) return;
  const size_t part = progress->Worst();
  const Instance& instance = progress->parts()[part];
  if (instance.size() < 2 || CountConflicts(instance) > kMaxPairsToMove) return;
  const std::shared_ptr<const Conflicts> conflicts = progress->conflicts(part);
  const int64_t enough = std::max(progress->target(), progress->bound(part)) - instance.base;
  std::vector<Chain> chains;
  for (uint32_t seed = 1; seed <= kChains; ++seed) chains.emplace_back(instance, *conflicts, seed);
  const int winner = Race(options.threads, kChains, [&](int index, const std::function<bool()>& stop) {
    return chains[static_cast<size_t>(index)].Run(progress->offsets(part), enough, work / kChains,
                                                  [&] { return stop() || progress->TimeIsUp(); });
  });
  for (int i = 0; i < std::min(winner + 1, kChains); ++i) {
    const Chain& chain = chains[static_cast<size_t>(i)];
    progress->AddWork(chain.work());
    if (!chain.offsets().empty()) progress->Offer(part, chain.total(), chain.offsets());
  }
}

}  // namespace snug::core::memory
