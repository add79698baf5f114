#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "memory/place/placers.h"
#include "memory/place/search.h"
#include "memory/race.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kExactWork = 400'000'000;
constexpr int64_t kMovesShare = 20;          // 1 / kMovesShare of the work is left for moves, in case the search finds
                                             // nothing
constexpr int64_t kFirstBudget = 2'000'000;  // an attempt gets at least this much work,
constexpr int64_t kDives = 8;                // and enough to place every item this often
constexpr int kRoundsPerDoubling = 3;        // the budget doubles after so many misses of the bound
constexpr double kNoise[] = {0, 0.1, 0.3, 0.6};   // indexed by round
constexpr int64_t kMaxPairsOfExact = 40'000'000;  // with more pairs there is no room for them
constexpr int kStyles = 2 * kPreferences;         // every capacity is tried in so many styles
constexpr int64_t kNarrow = 256;                  // 1 / kNarrow of the bound is hardly anything

// An attempt: all that decides how it ends, and how it ended.
struct PlacementAttempt {
  int64_t capacity = 0;
  SearchStyle style;
  Verdict verdict = Verdict::kUndecided;
  int64_t work = 0;
  std::vector<int64_t> offsets;
};

int64_t EndOf(const Instance& instance, const std::vector<int64_t>& offsets) {
  int64_t end = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    end = std::max(end, offsets[i] + instance.items[i].size - instance.items[i].padding);
  }
  return end;
}

// Searches one part of the problem, over several calls.
class PartSearch {
 public:
  PartSearch(size_t part, const PlannerOptions& options, Progress* progress)
      : part_(part), options_(options), progress_(progress), instance_(progress->parts()[part]) {
    if (CountConflicts(instance_) > kMaxPairsOfExact) return;
    conflicts_ = progress->conflicts(part);
    // Placing every item once looks, each time, at all that is left.
    dive_ = static_cast<int64_t>(instance_.size()) * (static_cast<int64_t>(instance_.size()) + instance_.sections) / 2;
    for (const Item& item : instance_.items) {
      step_ = std::gcd(step_, std::gcd(item.size - item.padding, std::gcd(item.size, item.alignment)));
      if (item.fixed_offset > 0) step_ = std::gcd(step_, item.fixed_offset);
    }
  }

  // Makes one round of attempts. Returns the work that it took, 0 if there is nothing to try.
  int64_t Round(int64_t work_left) {
    if (conflicts_ == nullptr || dive_ * kDives > work_left) return 0;
    Goal& goal = NextGoal();
    std::vector<PlacementAttempt> attempts;
    for (int i = 0; i < kStyles; ++i) {
      attempts.push_back({.capacity = goal.capacity, .style = Style(i, goal.rounds)});
    }
    // The work of a round is dealt out before it begins, so that the result does not depend on threads.
    const int64_t budget = std::min(work_left, std::max(kFirstBudget, kDives * dive_) << goal.doublings);
    const auto affordable = static_cast<size_t>(work_left / budget);
    if (attempts.size() > affordable) attempts.resize(affordable);
    const int winner =
        Race(options_.threads, static_cast<int>(attempts.size()), [&](int index, const std::function<bool()>& stop) {
          PlacementAttempt& attempt = attempts[static_cast<size_t>(index)];
          PlacementSearch search(instance_, *conflicts_);
          attempt.verdict =
              search.Run(attempt.capacity, attempt.style, budget, [&] { return stop() || progress_->TimeIsUp(); });
          attempt.work = search.work();
          if (attempt.verdict == Verdict::kFits) attempt.offsets = search.offsets();
          return attempt.verdict != Verdict::kUndecided;
        });
    int64_t work = 0;
    for (size_t i = 0; i < attempts.size() && static_cast<int>(i) <= winner; ++i) {
      const PlacementAttempt& attempt = attempts[i];
      work += attempt.work;
      if (attempt.verdict == Verdict::kFits) {
        progress_->Offer(part_, EndOf(instance_, attempt.offsets), attempt.offsets);
      } else if (attempt.verdict == Verdict::kDoesNotFit) {
        progress_->RaiseBound(part_, instance_.base + attempt.capacity + step_);
      }
    }
    if (static_cast<size_t>(winner) == attempts.size()) {
      goal.missed = goal.capacity;
      ++goal.misses;
    }
    goal.work += work;
    ++goal.rounds;
    return std::max<int64_t>(work, 1);
  }

 private:
  // What rounds try to reach, and what it has taken. A round misses where it neither finds a plan nor shows that there
  // is none: only then does it spend its budget, so only then may the next ones grow.
  struct Goal {
    int64_t capacity = 0;
    int64_t missed = 0;  // the capacity that was missed last; 0: none
    int64_t work = 0;
    int rounds = 0, misses = 0;
    int doublings = 0;  // of the budget
  };

  static SearchStyle Style(int index, int round) {
    // Neighbours in this list differ as much as they can.
    constexpr ItemPreference kOrder[] = {ItemPreference::kLargest, ItemPreference::kLongest, ItemPreference::kArea,
                                         ItemPreference::kLoad};
    return {.preference = kOrder[index % kPreferences],
            .learn = (index + index / kPreferences) % 2 != 0,
            .noise = kNoise[round % static_cast<int>(std::size(kNoise))],
            .seed = static_cast<uint64_t>(round)};
  }

  // A capacity that is enough is all that is tried, unless it is known that nothing fits into it. Otherwise half of the
  // work goes to the bound: the tighter the capacity, the more the search can infer. The other half goes to the middle
  // between what was missed and the best total; where hardly anything lies between these, it begins anew.
  Goal& NextGoal() {
    const int64_t least = progress_->bound(part_) - instance_.base;
    const int64_t enough = (options_.capacity - instance_.base) / step_ * step_;  // as much as a total can be of it
    at_bound_.capacity = std::max(least, enough);
    at_bound_.doublings = at_bound_.misses / kRoundsPerDoubling;
    if (enough >= least || at_bound_.work <= between_.work) return at_bound_;
    const int64_t most = progress_->total(part_) - instance_.base - step_;  // the largest that would improve
    if (between_.missed >= least && most - between_.missed <= least / kNarrow) {
      between_.missed = 0;
      ++between_.doublings;
    }
    const int64_t from = std::max(between_.missed, least);
    between_.capacity = from + (most - from + step_) / 2 / step_ * step_;
    return between_;
  }

  const size_t part_;
  const PlannerOptions& options_;
  Progress* progress_;
  const Instance& instance_;
  std::shared_ptr<const Conflicts> conflicts_;  // null: there are too many to search
  int64_t step_ = 0;                            // every total is a multiple of it
  int64_t dive_ = 0;                            // roughly the work of placing every item once
  Goal at_bound_, between_;
};

}  // namespace

void ImproveBySearch(const PlannerOptions& options, int64_t work, Progress* progress) {
  std::map<size_t, PartSearch> searches;
  while (work > 0 && !progress->Done()) {
    const size_t part = progress->Worst();
    const int64_t spent = searches.try_emplace(part, part, options, progress).first->second.Round(work);
    if (spent == 0) return;
    progress->AddWork(spent);
    work -= spent;
  }
}

absl::StatusOr<Placement> PlaceExact(const Problem& problem, const PlannerOptions& options) {
  Progress progress(problem, options);
  PlannerOptions lists = options;
  lists.work_limit = 0;
  ImproveByLists(lists, &progress);
  const int64_t work = options.work_limit > 0 ? options.work_limit : kExactWork;
  ImproveBySearch(options, work - work / kMovesShare, &progress);
  ImproveByMoves(options, work / kMovesShare, &progress);
  return progress.Finish();
}

}  // namespace snug::core::memory
