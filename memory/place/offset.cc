#include <algorithm>
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

struct Result {
  int64_t total = 0;
  int64_t work = 0;
  std::vector<int64_t> offsets;
};

// Tries the first `most` lists on one part, until one is good enough.
void TryLists(const PlannerOptions& options, int64_t most, size_t part, Progress* progress) {
  const Instance& instance = progress->parts()[part];
  const int64_t enough = std::max(progress->target(), progress->bound(part)) - instance.base;
  const int64_t pairs = CountConflicts(instance);
  const bool few_pairs = pairs <= kFewPairs;
  const Conflicts conflicts = few_pairs ? ConflictsOf(instance) : Conflicts{};
  // The number of lists follows from the limit and the rough cost of one list, not from threads or clocks.
  const int lists = few_pairs ? static_cast<int>(std::clamp<int64_t>(most, 1, 2 * SequenceCount())) : 0;
  int allowed = lists + kSkylineRules;
  if (options.work_limit > 0) {
    const int64_t cost = std::max<int64_t>(few_pairs ? pairs : 0, static_cast<int64_t>(instance.size()));
    allowed = static_cast<int>(std::clamp<int64_t>(options.work_limit / cost, 1, allowed));
  }
  std::vector<Result> results(static_cast<size_t>(allowed));
  const int winner = Race(options.threads, allowed, [&](int index, const std::function<bool()>& stop) {
    if (stop() || (index > 0 && progress->TimeIsUp())) return false;
    Result& result = results[static_cast<size_t>(index)];
    if (index < lists) {
      ListPlacer placer(instance, conflicts);
      result.total = placer.Place(SequenceOf(instance, index / 2), index % 2 == 0 ? GapRule::kBest : GapRule::kFirst,
                                  ListPlacer::kNoLimit);
      result.offsets = placer.offsets();
      result.work = placer.work();
    } else {
      result.total = PlaceOnSkyline(instance, index - lists, &result.offsets);
      result.work = static_cast<int64_t>(instance.size());
    }
    return result.total <= enough;
  });
  for (int i = 0; i < std::min(winner + 1, allowed); ++i) {
    const Result& result = results[static_cast<size_t>(i)];
    if (result.offsets.empty()) continue;
    progress->AddWork(result.work);
    progress->Offer(part, result.total, result.offsets);
  }
}

}  // namespace

void ImproveByLists(const PlannerOptions& options, Progress* progress) {
  int64_t looks = 1;  // how many looks one list takes on all parts
  for (const Instance& part : progress->parts()) looks += 2 * CountConflicts(part);
  const int64_t most = kListWork / looks;
  for (size_t part = 0; part < progress->parts().size(); ++part) TryLists(options, most, part, progress);
}

absl::StatusOr<Placement> PlaceOffset(const Problem& problem, const PlannerOptions& options) {
  Progress progress(problem, options);
  ImproveByLists(options, &progress);
  return progress.Finish();
}

}  // namespace snug::core::memory
