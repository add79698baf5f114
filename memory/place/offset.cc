#include "memory/place/offset.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "memory/place/list_placer.h"
#include "memory/place/sequences.h"
#include "memory/place/skyline.h"
#include "memory/race.h"

namespace snug::memory {
namespace {

// Above this, the pairs of buffers that are live together would fill memory, or take too long to go through.
constexpr int64_t kMaxPairs = 40'000'000;
// Looks at neighbours, in all parts together, that lists are worth. Where the search that follows has no chance either,
// a list more or less hardly matters, and takes long.
constexpr int64_t kListWork = 100'000'000;

struct Result {
  int64_t total = 0;
  int64_t work = 0;
  std::vector<int64_t> offsets;
};

// Tries lists on one part, the first `most`, until one reaches what is wanted.
void TryLists(const PlannerOptions& options, int64_t most, size_t part, Progress* progress) {
  const Instance& instance = progress->parts()[part];
  const int64_t enough = std::max(progress->target(), progress->bound(part)) - instance.base;
  const int64_t pairs = CountConflicts(instance);
  const bool few_pairs = pairs <= kMaxPairs;
  const Conflicts conflicts = few_pairs ? ConflictsOf(instance) : Conflicts{};
  // What one list costs, roughly, tells how many the limit allows: a number that threads and clocks have no part in.
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
  int64_t looks = 1;  // that one list takes on all parts
  for (const Instance& part : progress->parts()) looks += 2 * CountConflicts(part);
  const int64_t most = kListWork / looks;
  for (size_t part = 0; part < progress->parts().size(); ++part) TryLists(options, most, part, progress);
}

absl::StatusOr<Placement> PlaceOffset(const Problem& problem, const PlannerOptions& options) {
  Progress progress(problem, options);
  ImproveByLists(options, &progress);
  return progress.Finish();
}

}  // namespace snug::memory
