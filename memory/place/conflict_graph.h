// Placement for conflicts that do not come from intervals: any relation that says who must not overlap whom. It tries
// greedy sequences (several, into the lowest gap and into the tightest) and a local search over sequences, within a
// work limit.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "memory/partial_problem.h"
#include "memory/planner.h"

namespace snug::core::memory {

struct ConflictGraph {
  struct Item {
    int64_t size_bytes = 0;
    int64_t alignment = 1;
    std::vector<int32_t> conflicts;  // ascending numbers of other items
  };
  std::vector<Item> items;
};

// Has one item for each buffer with bytes of its own; companions are one item. `problem` must have no views.
struct PartialItems {
  ConflictGraph graph;
  std::vector<int32_t> item_of;  // the item of each buffer; -1: none
};
absl::StatusOr<PartialItems> ItemsOf(const PartialProblem& problem);

// Bounds all placements from below by report.lower_bound: the heaviest of the cliques found greedily, one from each
// item. Looks at no more pairs than the work limit allows.
SearchReport FindCliques(const ConflictGraph& graph, const PlannerOptions& options);

// Finds offsets for the items. `start` are offsets to improve on, and may be empty. options.work_limit counts looks at
// a placed neighbour; the first placement is made whatever the limits.
Placement PlaceConflicts(const ConflictGraph& graph, const std::vector<int64_t>& start, const PlannerOptions& options);

}  // namespace snug::core::memory
