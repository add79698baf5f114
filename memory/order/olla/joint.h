// Program 9 of OLLA finds order and offsets at once, for the smallest arena.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "memory/olla_options.h"
#include "memory/order/olla/graph.h"
#include "memory/problem.h"

namespace snug::core::memory {

struct JointPlan {
  TaskOrder order;
  Plan plan;  // a plan of LifetimesOf(tasks, order); no in-place pair is used
};

struct JointGoal {
  int64_t most = 0;    // a larger arena is useless
  int64_t enough = 0;  // a smaller arena would be no better
  JointPlan start;     // for OllaOptions::warm_start; a plan above `most` stands for none
  int64_t work = 0;    // IlpOptions::work
};

struct JointResult {
  bool solved = false;
  int64_t work = 0;
  std::string left_out;  // why the solver was not asked; empty when it was
};

// `found` is called with every plan that the solver finds, `tighten` with every new bound of the arena.
absl::StatusOr<JointResult> SolveJoint(const OllaGraph& graph, const JointGoal& goal, const OllaOptions& olla,
                                       const std::function<void(const JointPlan& plan)>& found,
                                       const std::function<void(int64_t bound)>& tighten);

}  // namespace snug::core::memory
