// The order and the plans of a step, by one of the strategies of memory/strategies.h.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "engine/compile/tasks.h"
#include "memory/strategies.h"

namespace snug {

struct MemoryOptions {
  std::string strategy = std::string(memory::kDefaultStrategy);
  memory::PlannerOptions planner;
  std::string plan_file;  // not empty: nothing is planned, this plan is loaded (plan_file.h)
};

// Positions of the step problem are places in step.order: the n-th Step of the Executable runs at position n.
struct MemoryPlan {
  std::string strategy;
  memory::Problem state_problem;  // Variables: all live for ever
  memory::Plan state_plan;
  memory::TaskPlan step;
  double seconds = 0;  // the whole planning took

  int64_t total_bytes() const { return state_plan.arena_bytes + step.placement.plan.arena_bytes; }
  int64_t lower_bound() const { return state_plan.arena_bytes + step.placement.report.lower_bound; }
  bool proven() const { return step.placement.report.proven; }
};

// `given` is the order that strategies which do not order keep.
absl::StatusOr<MemoryPlan> PlanMemory(const StepTasks& tasks, const memory::TaskOrder& given,
                                      const MemoryOptions& options);

}  // namespace snug
