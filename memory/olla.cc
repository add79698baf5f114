#include "memory/olla.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "memory/order/in_place_tasks.h"
#include "memory/order/olla.h"
#include "memory/place/olla.h"

namespace snug::memory {
namespace {

absl::StatusOr<TaskPlan> PlanInPlace(const Tasks& tasks, const PlannerOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const InPlaceTasks plain, WithoutInPlace(tasks));
  PlannerOptions split = options;
  split.olla.mode = OllaOptions::Mode::kSplit;
  split.time_limit /= 2;
  SNUG_ASSIGN_OR_RETURN(Ordering ordering, OrderOlla(plain.tasks, split));
  TaskPlan plan{.order = plain.OriginalOrder(ordering.order), .ordered = true, .ordering = std::move(ordering.report)};
  plan.problem = LifetimesOf(tasks, plan.order);
  SNUG_ASSIGN_OR_RETURN(plan.placement, PlaceOlla(plan.problem, split));
  SearchReport& report = plan.placement.report;
  report.lower_bound = plan.ordering.lower_bound;
  report.proven = plan.placement.plan.arena_bytes <= report.lower_bound;
  return plan;
}

}  // namespace

absl::StatusOr<TaskPlan> PlanByOlla(const Tasks& tasks, const TaskOrder& given, const PlannerOptions& options) {
  if (!tasks.in_place.empty() && options.olla.mode != OllaOptions::Mode::kJoint) return PlanInPlace(tasks, options);
  PlannerOptions from_given = options;
  if (from_given.olla.start.empty()) from_given.olla.start = given;
  SNUG_ASSIGN_OR_RETURN(OllaPlan plan, PlanOlla(tasks, from_given));
  return TaskPlan{.order = std::move(plan.ordering.order),
                  .problem = std::move(plan.problem),
                  .placement = std::move(plan.placement),
                  .ordered = true,
                  .ordering = std::move(plan.ordering.report)};
}

}  // namespace snug::memory
