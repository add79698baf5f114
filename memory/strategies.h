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
  bool in_blocks = false;     // gives each value a whole block of its own, or one that others have had
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

// The default strategy: it finds an order of low peak, then a small arena for it. It never needs more than any cheap
// strategy does for the given order. The bound in placement.report holds for all legal orders and for every choice of
// what is written in place.
absl::StatusOr<TaskPlan> PlanBest(const Tasks& tasks, const TaskOrder& given, const PlannerOptions& options);

// The strategy `olla`: the programs of the paper as one anytime search. See olla_options.h for their switches.
//
// The result is never larger than what `both` makes of the given order. It is also never larger than the plan that
// `exact` finds for that order within a fraction of a second's work, nor, with fast_start, than that of `best`; both
// hold unless time is up before these are made. placement.report covers the whole search: its lower bound holds for all
// legal orders and every choice of what is written in place, and its notes say for each program how far it came, or why
// it was left out. `ordering` has the bound of the peak.
//
// work_limit counts iterations of the simplex method. time_limit is kept by the clock and includes everything, also
// building the programs.
absl::StatusOr<TaskPlan> PlanByOlla(const Tasks& tasks, const TaskOrder& given, const PlannerOptions& options);

}  // namespace snug::core::memory
