// Plans for buffers under a partial order, by the strategies of `--memory=`: plans that are safe for all orders, or for
// one that is chosen.
#pragma once

#include <absl/status/statusor.h>

#include "memory/partial_problem.h"
#include "memory/strategies.h"

namespace snug::core::memory {

// Returns the problem for tasks that run in this order.
PartialProblem InSequence(const PartialProblem& problem, const TaskOrder& order);

// Returns the most bytes that are in use at once in this order.
int64_t PeakOf(const PartialProblem& problem, const TaskOrder& order);

// Returns offsets that are safe for every order that the problem allows. Where there is only one such order, any
// strategy will do; otherwise it must be one of those of PlacePartial.
absl::StatusOr<Placement> PlaceUses(const PartialProblem& problem, const Strategy& strategy,
                                    const PlannerOptions& options);

struct UsesPlan {
  TaskOrder order;
  Placement placement;    // has one offset for each buffer, and is right for this order
  bool ordered = false;   // the strategy chose the order, so the bounds hold for all orders; otherwise only for this
                          // one
  SearchReport ordering;  // reports on the orderer alone
};

// Returns an order, and offsets for it. Strategies without an orderer take the tasks by their numbers, as far as that
// is legal.
absl::StatusOr<UsesPlan> PlanUses(const PartialProblem& problem, const Strategy& strategy,
                                  const PlannerOptions& options);

}  // namespace snug::core::memory
