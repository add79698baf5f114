#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "memory/place/list_placer.h"
#include "memory/place/placers.h"
#include "memory/race.h"

namespace snug::core::memory {
namespace {

// The most pairs of buffers that are live together for which a list of them is made: more would fill memory or take too
// long to go through.
constexpr int64_t kFewPairs = 40'000'000;
// The work that lists get in all parts together, in looks at neighbours. Where that is not enough the search that
// follows has no chance either, so more lists would only take time.
constexpr int64_t kListWork = 100'000'000;

// With more pairs than this the lists of them take longer than skylines, which need none, so these come first.
constexpr int64_t kManyPairs = 1'000'000;

struct Result {
  int64_t total = 0;
  int64_t work = 0;
  std::vector<int64_t> offsets;
};

// Tries ways to place one part.
class Attempts {
 public:
  Attempts(const PlannerOptions& options, size_t part, Progress* progress)
      : options_(options),
        part_(part),
        progress_(progress),
        instance_(progress->parts()[part]),
        pairs_(CountConflicts(instance_)),
        enough_(std::max(progress->target(), progress->bound(part)) - instance_.base) {}

  // Tries the first `most` lists and the skylines, until one is good enough.
  void Run(int64_t most) {
    const bool few_pairs = pairs_ <= kFewPairs;
    // The number of attempts follows from the limit and the rough cost of one list, not from threads or clocks.
    const int lists = few_pairs ? static_cast<int>(std::clamp<int64_t>(most, 1, 2 * SequenceCount())) : 0;
    int allowed = lists + kSkylineRules;
    if (options_.work_limit > 0) {
      const int64_t cost = std::max<int64_t>(few_pairs ? pairs_ : 0, static_cast<int64_t>(instance_.size()));
      allowed = static_cast<int>(std::clamp<int64_t>(options_.work_limit / cost, 1, allowed));
    }
    if (pairs_ > kManyPairs) {
      const int skylines = std::min(allowed, kSkylineRules);
      if (!TrySkylines(skylines)) TryLists(std::min(allowed - skylines, lists));
    } else if (!TryLists(std::min(allowed, lists))) {
      TrySkylines(allowed - std::min(allowed, lists));
    }
  }

 private:
  bool TryLists(int count) {
    if (count == 0) return false;
    const std::shared_ptr<const Conflicts> conflicts = progress_->conflicts(part_);
    return TryEach(count, [&](int index, Result* result) {
      ListPlacer placer(instance_, *conflicts);
      result->total = placer.Place(SequenceOf(instance_, index / 2), index % 2 == 0 ? GapRule::kBest : GapRule::kFirst,
                                   ListPlacer::kNoLimit);
      result->offsets = placer.offsets();
      result->work = placer.work();
    });
  }

  bool TrySkylines(int count) {
    return TryEach(count, [&](int rule, Result* result) {
      result->total = PlaceOnSkyline(instance_, rule, &result->offsets);
      result->work = static_cast<int64_t>(instance_.size());
    });
  }

  // Returns whether one is good enough. The very first attempt of a part is made in any case, so that it has offsets.
  template <class Try>
  bool TryEach(int count, const Try& attempt) {
    std::vector<Result> results(static_cast<size_t>(count));
    const bool needed = !placed_;
    const int winner = Race(options_.threads, count, [&](int index, const std::function<bool()>& stop) {
      if (stop() || ((index > 0 || !needed) && progress_->TimeIsUp())) return false;
      Result& result = results[static_cast<size_t>(index)];
      attempt(index, &result);
      return result.total <= enough_;
    });
    for (int i = 0; i < std::min(winner + 1, count); ++i) {
      const Result& result = results[static_cast<size_t>(i)];
      if (result.offsets.empty()) continue;
      placed_ = true;
      progress_->AddWork(result.work);
      progress_->Offer(part_, result.total, result.offsets);
    }
    return winner < count;
  }

  const PlannerOptions& options_;
  const size_t part_;
  Progress* progress_;
  const Instance& instance_;
  const int64_t pairs_;
  const int64_t enough_;
  bool placed_ = false;
};

}  // namespace

void ImproveByLists(const PlannerOptions& options, Progress* progress) {
  int64_t looks = 1;  // how many looks one list takes on all parts
  for (const Instance& part : progress->parts()) looks += 2 * CountConflicts(part);
  const int64_t most = kListWork / looks;
  for (size_t part = 0; part < progress->parts().size(); ++part) Attempts(options, part, progress).Run(most);
}

absl::StatusOr<Placement> PlaceOffset(const Problem& problem, const PlannerOptions& options) {
  Progress progress(problem, options);
  ImproveByLists(options, &progress);
  return progress.Finish();
}

}  // namespace snug::core::memory
