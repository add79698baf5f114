// The strategies: what `--memory=` may name. Each is an orderer and a placer; this is the table of them.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include "memory/planner.h"

namespace snug::memory {

using OrderFn = absl::StatusOr<Ordering> (*)(const Tasks&, const PlannerOptions&);
using PlaceFn = absl::StatusOr<Placement> (*)(const Problem&, const PlannerOptions&);

struct TaskPlan;
using PlanFn = absl::StatusOr<TaskPlan> (*)(const Tasks&, const TaskOrder& given, const PlannerOptions&);

struct Strategy {
  absl::string_view name;     // as written after --memory=
  absl::string_view summary;  // one line
  OrderFn order = nullptr;    // null: keeps the order it is given
  PlaceFn place = nullptr;    // uses the problem's in-place options, or leaves them alone
  PlanFn plan = nullptr;      // null: `order`, then `place`
  bool slow = false;          // minutes on large networks, unless it is limited
  bool by_solver = false;     // of integer linear programs (ilp/solver.h), which a build may have none of
};

constexpr absl::string_view kDefaultStrategy = "best";

absl::Span<const Strategy> Strategies();

// InvalidArgument, with the nearest name, for one that is none.
absl::StatusOr<const Strategy*> FindStrategy(absl::string_view name);

// An order, and where everything lies in it.
struct TaskPlan {
  TaskOrder order;
  Problem problem;        // one buffer for each value: LifetimesOf(tasks, order)
  Placement placement;    // its seconds and work are the placer's alone
  bool ordered = false;   // the strategy chose the order: `ordering` tells how, and placement.report.lower_bound is a
                          // bound over all legal orders; otherwise it holds for this order
  SearchReport ordering;  // of the orderer alone
};

// `given` is a legal order: strategies that do not order keep it. The result is verified.
absl::StatusOr<TaskPlan> PlanTasks(const Tasks& tasks, const TaskOrder& given, absl::string_view strategy,
                                   const PlannerOptions& options);

// The placer alone, for lifetimes that are fixed already. The result is verified.
absl::StatusOr<Placement> PlaceProblem(const Problem& problem, absl::string_view strategy,
                                       const PlannerOptions& options);

}  // namespace snug::memory
