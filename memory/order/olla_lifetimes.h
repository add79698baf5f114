// Program 14 of OLLA: the order of least peak, for one stage.
#pragma once

#include <absl/status/statusor.h>

#include <functional>

#include "memory/olla_options.h"
#include "memory/order/olla_graph.h"

namespace snug::memory {

// No order has a lower peak: the resident bytes and the largest task's inputs and outputs.
int64_t LargestTask(const Tasks& tasks);

// More binaries than this, and the solver would not come to its first solution in any time that someone waits.
constexpr int64_t kMostOllaBinaries = 60'000;
int64_t OllaBinaries(const OllaGraph& graph, bool spans);

struct LifetimesGoal {
  TaskOrder start;
  int64_t enough = 0;  // a peak of so many bytes is as good as less
  int64_t most = 0;    // orders of a higher peak are of no use
  int64_t work = 0;    // IlpOptions::work
};

struct LifetimesResult {
  bool solved = false;  // no order within the goal is better than the last that was found
  int64_t work = 0;
};

// `found` hears of every order that the solver comes upon, `tighten` of peaks that no order is below, both as they
// come.
absl::StatusOr<LifetimesResult> SolveLifetimes(const OllaGraph& graph, const LifetimesGoal& goal,
                                               const OllaOptions& olla,
                                               const std::function<void(const TaskOrder& order)>& found,
                                               const std::function<void(int64_t bound)>& tighten);

}  // namespace snug::memory
