// The placers that look for offsets by greedy lists, exact search and local search, for lifetimes that are known, under
// a partial order, or on several streams; and the stages that they are made of. Each is in a .cc file of its own.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <vector>

#include "memory/partial_problem.h"
#include "memory/place/progress.h"
#include "memory/planner.h"

namespace snug::core::memory {

// Exact placement. Greedy offsets come first, then branch and bound (search.h) under ever smaller capacities, from
// several preferences and with growing effort, until the total is proven or the work is spent; then moves within the
// best list. The work limit counts items and sections that the search looks at; the default takes some seconds. Without
// a capacity it looks for the least total; with one, for any that is no larger.
absl::StatusOr<Placement> PlaceExact(const Problem& problem, const PlannerOptions& options);

// Runs as a stage of another planner: improves until it is done or `work` is spent.
void ImproveBySearch(const PlannerOptions& options, int64_t work, Progress* progress);

// Greedy placement: tries many sequences, into the best place or the first place, and keeps the best result. The work
// limit counts neighbours looked at; by default every sequence is tried. The bound is the max load. Each sequence takes
// O(n log n + pairs of buffers that are live together), or O(n log n) where there are too many pairs.
absl::StatusOr<Placement> PlaceOffset(const Problem& problem, const PlannerOptions& options);

// Runs as the first stage of another planner.
void ImproveByLists(const PlannerOptions& options, Progress* progress);

// Local search over lists: it moves one item at a time within the sequence in which items are placed. Improves the part
// that decides the total. Every part must have offsets. `work` counts neighbours looked at and is dealt out to the
// chains before they begin, so that the result does not depend on threads.
void ImproveByMoves(const PlannerOptions& options, int64_t work, Progress* progress);

// The strategies of `--memory=` for buffers under a partial order: those that need no lifetimes. `strategy` is none,
// nnc, nnc-seed, offset (greedy sequences and local search), or best (the best of all these). The lower bound is a
// clique of buffers that interfere. Other names fail with InvalidArgument, which lists these.
absl::StatusOr<Placement> PlacePartial(const PartialProblem& problem, absl::string_view strategy,
                                       const PlannerOptions& options);

// Placement for Tasks on several streams that never makes a stream wait for bytes to be free. A value's bytes are
// reused only by tasks that come after all its users anyway, because they need what those made or follow them on a
// stream. Compared with a plan for one stream it costs bytes but no time. `streams` has the tasks of each stream, in
// the sequence in which it runs them. The lower bound holds for this schedule.
absl::StatusOr<Placement> PlaceWaitless(const Tasks& tasks, const std::vector<std::vector<int32_t>>& streams,
                                        const PlannerOptions& options);

}  // namespace snug::core::memory
