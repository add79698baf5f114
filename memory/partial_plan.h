// Plans for buffers under a partial order, by the strategies of `--memory=`: safe for all orders, or with one chosen.
#pragma once

#include <absl/status/statusor.h>

#include "memory/partial_problem.h"
#include "memory/strategies.h"

namespace snug::memory {

// The same where the tasks run in this order.
PartialProblem InSequence(const PartialProblem& problem, const TaskOrder& order);

// The most bytes that are in use at once in this order.
int64_t PeakOf(const PartialProblem& problem, const TaskOrder& order);

// Offsets that are safe for every order that the problem allows. Where that is only one, any strategy will do; else
// those of PlacePartial.
absl::StatusOr<Placement> PlaceUses(const PartialProblem& problem, const Strategy& strategy,
                                    const PlannerOptions& options);

struct UsesPlan {
  TaskOrder order;
  Placement placement;    // for this order: one offset for each buffer
  bool ordered = false;   // the strategy chose the order: the bounds hold over all of them; else for this one
  SearchReport ordering;  // of the orderer alone
};

// An order and offsets for it. Strategies that do not order take the tasks by their numbers, as far as that is legal.
absl::StatusOr<UsesPlan> PlanUses(const PartialProblem& problem, const Strategy& strategy,
                                  const PlannerOptions& options);

}  // namespace snug::memory
