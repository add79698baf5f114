// Program 14 of OLLA finds the order of least peak, for one stage.
#pragma once

#include <absl/status/statusor.h>

#include <functional>

#include "memory/olla_options.h"
#include "memory/order/olla/graph.h"

namespace snug::core::memory {

// Returns a bound of every order's peak: the resident bytes and the largest task's inputs and outputs.
int64_t LargestTask(const Tasks& tasks);

// With more binaries than this, the solver would not find its first solution in any time that someone waits.
constexpr int64_t kMostOllaBinaries = 60'000;
int64_t OllaBinaries(const OllaGraph& graph, bool spans);

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
