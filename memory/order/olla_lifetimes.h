// Program 14 of OLLA: the order of least peak, for one stage.
#pragma once

#include <absl/status/statusor.h>

#include <functional>

#include "memory/ilp/search.h"
#include "memory/order/olla_graph.h"
#include "memory/planner.h"

namespace snug::memory {

// No order has a lower peak: the resident bytes and the largest task's inputs and outputs.
int64_t LargestTask(const Tasks& tasks);

// More binaries than this, and the solver would not come to its first solution in any time that someone waits.
constexpr int64_t kMostOllaBinaries = 60'000;
int64_t OllaBinaries(const OllaGraph& graph, bool spans);

struct LifetimesResult {
  TaskOrder order;  // `start` if nothing better was found
  int64_t peak = 0;
  int64_t lower_bound = 0;
};

// A peak of `enough` bytes is as good as less. `limits` has the limits; `progress` hears of peaks and bounds.
absl::StatusOr<LifetimesResult> SolveLifetimes(const OllaGraph& graph, const TaskOrder& start, int64_t enough,
                                               const PlannerOptions& options, IlpOptions limits,
                                               const std::function<void(int64_t peak, int64_t bound)>& progress,
                                               IlpSearch* search);

}  // namespace snug::memory
