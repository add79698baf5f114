// OLLA's integer linear programs for orders.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "memory/olla_options.h"
#include "memory/order/olla/graph.h"
#include "memory/problem.h"

namespace snug::core::memory {

// Program 9 finds order and offsets at once, for the smallest arena.
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

// Returns a bound of every order's peak: the resident bytes and the largest task's inputs and outputs.
int64_t LargestTask(const Tasks& tasks);

// The most binaries of a program: with more, the solver finds no first solution in any time that someone would wait.
constexpr int64_t kMostOllaBinaries = 60'000;
int64_t OllaBinaries(const OllaGraph& graph, bool spans);

// Program 14 finds the order of least peak, for one stage.
struct LifetimesGoal {
  TaskOrder start;
  int64_t enough = 0;  // a lower peak would be no better
  int64_t most = 0;    // orders of a higher peak are useless
  int64_t work = 0;    // IlpOptions::work
};

struct LifetimesResult {
  bool solved = false;  // no order within the goal is better than the last one found
  int64_t work = 0;
};

// `found` is called with every order that the solver finds, `tighten` with every new bound of the peak.
absl::StatusOr<LifetimesResult> SolveLifetimes(const OllaGraph& graph, const LifetimesGoal& goal,
                                               const OllaOptions& olla,
                                               const std::function<void(const TaskOrder& order)>& found,
                                               const std::function<void(int64_t bound)>& tighten);

}  // namespace snug::core::memory
