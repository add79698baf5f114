#include "memory/strategies.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/suggest.h"
#include "memory/in_place.h"
#include "memory/order/in_place_tasks.h"
#include "memory/order/olla/orders.h"
#include "memory/order/order_search.h"
#include "memory/place/olla.h"
#include "memory/place/placers.h"
#include "memory/problem.h"
#include "memory/share/blocks.h"
#include "memory/share/nnc.h"
#include "memory/share/pool.h"
#include "memory/verifier.h"

namespace snug::core::memory {
namespace {

absl::StatusOr<Placement> PlaceNone(const Problem& problem, const PlannerOptions&) {
  Placement placement{.plan = PlanNone(problem)};
  placement.report.lower_bound = LowerBound(problem);
  placement.report.proven = placement.plan.arena_bytes == placement.report.lower_bound;
  return placement;
}

template <PlaceFn place>
absl::StatusOr<Placement> Folding(const Problem& problem, const PlannerOptions& options) {
  return PlaceFolded(problem, options, place);
}

constexpr Strategy InBlocks(absl::string_view name, absl::string_view summary, PlaceFn place) {
  return {.name = name, .summary = summary, .place = place, .in_blocks = true};
}

// Tables show them in this order.
constexpr Strategy kStrategies[] = {
    InBlocks("none", "every value its own bytes: the baseline, and the truth", PlaceNone),
    InBlocks("inplace", "outputs over their inputs where nobody else reads these", PlaceInPlace),
    InBlocks("share", "whole blocks from a pool, as values die (the memory note)", PlaceShare),
    InBlocks("both", "inplace and share", PlaceBoth),
    InBlocks("coloring", "whole blocks by colouring the conflict graph", PlaceColoring),
    {"nnc", "partial reuse through NNC's allocation graph, the largest first", nullptr, PlaceNnc},
    {"nnc-seed", "the same by the rule of NNC's document: the most interference first", nullptr, PlaceNncSeed},
    {"offset", "greedy offsets: many sequences of the buffers, the best result kept", nullptr, Folding<PlaceOffset>},
    {"exact", "branch and bound on offsets: proves the optimum or reports the gap", nullptr, Folding<PlaceExact>},
    {"olla", "order and offsets as integer linear programs (OLLA)", OrderOlla, PlaceOlla, PlanByOlla,
     /*slow=*/true, /*by_solver=*/true},
    {"best", "the order of least peak, and the best of all placements for it, within a work limit", OrderBest,
     Folding<PlaceExact>, PlanBest},
};

absl::StatusOr<Placement> PlaceVerified(const Problem& problem, const Strategy& strategy,
                                        const PlannerOptions& options) {
  SNUG_ASSIGN_OR_RETURN(Placement placement, strategy.place(problem, options));
  SNUG_RETURN_IF_ERROR(Annotate(Verify(problem, placement.plan), absl::StrCat("the plan of ", strategy.name)));
  return placement;
}

absl::StatusOr<TaskPlan> OrderAndPlace(const Tasks& tasks, const TaskOrder& given, const Strategy& strategy,
                                       const PlannerOptions& options) {
  TaskPlan result{.order = given, .ordered = strategy.order != nullptr};
  if (result.ordered) {
    SNUG_ASSIGN_OR_RETURN(const InPlaceTasks plain, WithoutInPlace(tasks));
    SNUG_ASSIGN_OR_RETURN(Ordering ordering, strategy.order(plain.tasks, options));
    result.order = plain.OriginalOrder(ordering.order);
    result.ordering = std::move(ordering.report);
    SNUG_RETURN_IF_ERROR(CheckOrder(tasks, result.order));
  }
  result.problem = LifetimesOf(tasks, result.order);
  SNUG_ASSIGN_OR_RETURN(result.placement, strategy.place(result.problem, options));
  SearchReport& report = result.placement.report;
  report.lower_bound =
      result.ordered ? result.ordering.lower_bound : std::max(report.lower_bound, LowerBound(result.problem));
  report.proven = result.placement.plan.arena_bytes <= report.lower_bound;
  return result;
}

}  // namespace

absl::Span<const Strategy> Strategies() { return kStrategies; }

absl::StatusOr<const Strategy*> FindStrategy(absl::string_view name) {
  Suggester suggester(name);
  std::vector<absl::string_view> names;
  for (const Strategy& strategy : kStrategies) {
    if (strategy.name == name) return &strategy;
    suggester.Consider(strategy.name);
    names.push_back(strategy.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown memory strategy \"", name, "\"", suggester.Question(),
                   suggester.found() ? " There are: " : "; there are: ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<TaskPlan> PlanTasks(const Tasks& tasks, const TaskOrder& given, absl::string_view strategy_name,
                                   const PlannerOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const Strategy* const strategy, FindStrategy(strategy_name));
  SNUG_ASSIGN_OR_RETURN(TaskPlan result, strategy->plan != nullptr ? strategy->plan(tasks, given, options)
                                                                   : OrderAndPlace(tasks, given, *strategy, options));
  SNUG_RETURN_IF_ERROR(Annotate(CheckOrder(tasks, result.order), absl::StrCat("the order of ", strategy->name)));
  SNUG_RETURN_IF_ERROR(
      Annotate(Verify(result.problem, result.placement.plan), absl::StrCat("the plan of ", strategy->name)));
  return result;
}

absl::StatusOr<Placement> PlaceProblem(const Problem& problem, absl::string_view strategy_name,
                                       const PlannerOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const Strategy* const strategy, FindStrategy(strategy_name));
  return PlaceVerified(problem, *strategy, options);
}

}  // namespace snug::core::memory
