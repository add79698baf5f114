// Program 9 of OLLA: order and offsets at once, for the smallest arena.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "memory/olla_options.h"
#include "memory/order/olla_graph.h"
#include "memory/problem.h"

namespace snug::memory {

struct JointPlan {
  TaskOrder order;
  Plan plan;  // of LifetimesOf(tasks, order), in-place options not used
};

struct JointGoal {
  int64_t most = 0;    // a larger arena is of no use
  int64_t enough = 0;  // one of so many bytes is as good as less
  JointPlan start;     // for OllaOptions::warm_start; of more bytes than `most`: none
  int64_t work = 0;    // IlpOptions::work
};

struct JointResult {
  bool solved = false;
  int64_t work = 0;
  std::string left_out;  // not empty: why the solver was not asked
};

// `found` hears of every plan that the solver comes upon, `tighten` of arenas that no plan is below, as they come.
absl::StatusOr<JointResult> SolveJoint(const OllaGraph& graph, const JointGoal& goal, const OllaOptions& olla,
                                       const std::function<void(const JointPlan& plan)>& found,
                                       const std::function<void(int64_t bound)>& tighten);

}  // namespace snug::memory
