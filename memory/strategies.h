// The table of strategies: what `--memory=` may name. Each is an orderer and a placer.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include "memory/planner.h"

namespace snug::core::memory {

using OrderFn = absl::StatusOr<Ordering> (*)(const Tasks&, const PlannerOptions&);
using PlaceFn = absl::StatusOr<Placement> (*)(const Problem&, const PlannerOptions&);

struct TaskPlan;
using PlanFn = absl::StatusOr<TaskPlan> (*)(const Tasks&, const TaskOrder& given, const PlannerOptions&);

struct Strategy {
  absl::string_view name;     // the name as written after --memory=
  absl::string_view summary;  // a line for the help
  OrderFn order = nullptr;    // null: keeps the order it is given
  PlaceFn place = nullptr;    // may use the problem's in-place pairs or ignore them
  PlanFn plan = nullptr;      // null: `order`, then `place`
  bool slow = false;          // takes minutes on large networks, unless it is limited
  bool by_solver = false;     // needs a solver of integer linear programs (ilp/solver.h), which a build may lack
};

constexpr absl::string_view kDefaultStrategy = "best";

absl::Span<const Strategy> Strategies();

// Fails with InvalidArgument, which suggests the nearest name, for an unknown one.
absl::StatusOr<const Strategy*> FindStrategy(absl::string_view name);

// An order, and where everything lies in it.
struct TaskPlan {
  TaskOrder order;
  Problem problem;        // LifetimesOf(tasks, order): one buffer for each value
  Placement placement;    // its seconds and work are the placer's alone
  bool ordered = false;   // the strategy chose the order: `ordering` tells how, and placement.report.lower_bound is a
                          // bound over all legal orders; otherwise it holds for this order
  SearchReport ordering;  // reports on the orderer alone
};

// `given` must be a legal order; strategies without an orderer keep it. The result is verified.
absl::StatusOr<TaskPlan> PlanTasks(const Tasks& tasks, const TaskOrder& given, absl::string_view strategy,
                                   const PlannerOptions& options);

// Runs the placer alone, for lifetimes that are fixed already. The result is verified.
absl::StatusOr<Placement> PlaceProblem(const Problem& problem, absl::string_view strategy,
                                       const PlannerOptions& options);

}  // namespace snug::core::memory
