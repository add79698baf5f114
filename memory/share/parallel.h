// The memory note's sharing for tasks that may run at once. It is the counter simulation along an order (pool.h), but
// the rule below limits which blocks a value may have. A block whose last users need not be done before its next writer
// begins is handed on at the price of an implicit edge, which the schedule must then keep: it takes away some of what
// could run at once.
//
//   implicit    any block; an edge wherever one is needed
//   ancestors   blocks all of whose users are ancestors of the writer, so that no edge is needed
//   colors      besides, the old and the new value must be written by tasks of one colour: the tasks on the longest
//               path by cost have the first colour, those on the longest path through what is left the second, and so
//               on (options.colors of them). Tasks left over share with nobody.
//
// `ancestors` and `colors` fall back to an implicit edge where they find no block; `ancestors-only` and `colors-only`
// open a new one. Outputs are written in place (without an edge) where the other readers of the input are ancestors.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <vector>

#include "memory/partial_order.h"
#include "memory/planner.h"

namespace snug::core::memory {

struct ParallelSharing {
  Placement placement;               // an offset for each value
  std::vector<Edge> implicit_edges;  // must be waited for in addition to what the tasks say; sorted
  double critical_path = 0;          // the cost of the longest path, with the implicit edges
  double critical_path_alone = 0;    // the same without the implicit edges
};

absl::Span<const absl::string_view> ParallelSharingNames();

absl::StatusOr<ParallelSharing> ShareInParallel(const Tasks& tasks, const TaskOrder& order, absl::string_view name,
                                                const PlannerOptions& options);

// Returns for each task the number of the path it is on, from 0; -1 for tasks on none of the `paths` longest.
std::vector<int32_t> ColorLongestPaths(const Tasks& tasks, const TaskOrder& order, int paths);

}  // namespace snug::core::memory
