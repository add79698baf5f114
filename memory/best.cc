#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/in_place.h"
#include "memory/order/in_place_tasks.h"
#include "memory/order/order_search.h"
#include "memory/place/placers.h"
#include "memory/problem.h"
#include "memory/share/nnc.h"
#include "memory/share/pool.h"
#include "memory/strategies.h"

namespace snug::core::memory {
namespace {

// The work limits when the user gives none, each a fraction of a second. The orderer's and the search's own defaults
// are longer: they are for users who ask for nothing else.
constexpr int64_t kOrderWork = int64_t{1} << 24;
constexpr int64_t kSearchWork = int64_t{1} << 24;

struct Candidate {
  TaskOrder order;
  Problem problem;
  int64_t load = 0;  // no plan of this order needs less
};

Candidate CandidateOf(const Tasks& tasks, TaskOrder order) {
  Candidate candidate{.order = std::move(order)};
  candidate.problem = LifetimesOf(tasks, candidate.order);
  candidate.load = LowerBound(candidate.problem);
  return candidate;
}

// Tries the lists, then the search within the allowed work. Only where these miss the bound does it try the other quick
// placers.
absl::StatusOr<Placement> PlaceBestOfAll(const Problem& problem, int64_t load, const PlannerOptions& options) {
  constexpr struct {
    PlaceFn place;
    size_t most;  // it is quick with at most as many buffers
  } kQuick[] = {{PlaceBoth, 5000}, {PlaceNnc, 5000}, {PlaceNncSeed, 500}};
  PlannerOptions search_options = options;
  if (options.work_limit == 0) search_options.work_limit = kSearchWork;
  SNUG_ASSIGN_OR_RETURN(Placement best, PlaceFolded(problem, search_options, PlaceExact));
  for (const auto& quick : kQuick) {
    if (best.plan.arena_bytes <= load) break;
    if (problem.buffers.size() > quick.most) continue;
    SNUG_ASSIGN_OR_RETURN(Placement other, quick.place(problem, options));
    best.report.seconds += other.report.seconds;
    best.report.work += other.report.work;
    best.report.clock_stopped |= other.report.clock_stopped;
    if (other.plan.arena_bytes >= best.plan.arena_bytes) continue;
    best.plan = std::move(other.plan);
    best.report.curve.push_back({best.report.seconds, best.plan.arena_bytes, best.report.lower_bound});
  }
  return best;
}

}  // namespace

absl::StatusOr<TaskPlan> PlanBest(const Tasks& tasks, const TaskOrder& given, const PlannerOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const InPlaceTasks plain, WithoutInPlace(tasks));
  PlannerOptions order_options = options;
  if (options.work_limit == 0) order_options.work_limit = kOrderWork;
  SNUG_ASSIGN_OR_RETURN(Ordering ordering, OrderBest(plain.tasks, order_options));
  std::vector<Candidate> candidates;
  candidates.push_back(CandidateOf(tasks, given));
  candidates.push_back(CandidateOf(tasks, plain.OriginalOrder(ordering.order)));
  SNUG_RETURN_IF_ERROR(Annotate(CheckOrder(tasks, candidates[1].order), "the order of best"));
  // When two orders are equally good the given one comes first: it is likely to be kinder to caches.
  if (candidates[1].load < candidates[0].load) std::swap(candidates[0], candidates[1]);

  TaskPlan best;
  for (Candidate& candidate : candidates) {
    const bool first = best.order.empty();
    if (!first && best.placement.plan.arena_bytes <= candidate.load) break;
    SNUG_ASSIGN_OR_RETURN(Placement placement, PlaceBestOfAll(candidate.problem, candidate.load, options));
    if (!first && placement.plan.arena_bytes >= best.placement.plan.arena_bytes) break;
    best = {.order = std::move(candidate.order),
            .problem = std::move(candidate.problem),
            .placement = std::move(placement)};
  }
  best.ordered = true;
  SearchReport& report = best.placement.report;
  report.lower_bound = ordering.report.lower_bound;
  report.proven = best.placement.plan.arena_bytes <= report.lower_bound;
  for (CurvePoint& point : report.curve) point.lower_bound = std::min(point.lower_bound, report.lower_bound);
  best.ordering = std::move(ordering.report);
  return best;
}

}  // namespace snug::core::memory
