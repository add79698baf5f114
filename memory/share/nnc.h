// NNC's tensor allocation: buffers are put into the edges of an allocation graph (allocation_graph.h), so that one may
// reuse a part of another's bytes; where no edge takes a candidate, a new region opens.
//
// Two rules for the next candidate. The later one (`nnc`): the largest buffer, ties by the most interference. The
// one of NNC's document (`nnc-seed`): the buffers with the most interference, alone and paired with a larger one that
// does not interfere; the largest candidate first, then the one with the most interference; the first that fits an edge
// is taken, else the first of all. As in NNC's implementation an edge may start at the source
// or end at the sink, which the document forbids (it costs memory, and saves none), and of several that fit, the
// one with the nearest ends takes it.
//
// The document leaves open whether interference with buffers that are in already counts, and what breaks ties. For
// `nnc` it counts, and ties go to the later position. For `nnc-seed` no answer is the better one as a rule: singles
// come before pairs, both directions of the position are tried, counting and not counting, and the smallest result is
// kept. (Of the 26 totals of the reference implementation each of the four alone misses some: 10, 8, 6 and 4, by up to
// a third. Together they miss none.)
#pragma once

#include <absl/status/statusor.h>

#include "memory/partial_problem.h"
#include "memory/planner.h"

namespace snug::memory {

enum class NncRule { kLater, kSeed };

// In a serial order. O(n x edges). The seed's rule may look at every pair before it opens a region: for graphs of up to
// a few thousand buffers.
absl::StatusOr<Placement> PlaceNnc(const Problem& problem, const PlannerOptions& options);
absl::StatusOr<Placement> PlaceNncSeed(const Problem& problem, const PlannerOptions& options);

// In a partial order: with views, companions and kinds.
absl::StatusOr<Plan> PlaceNncPartial(const PartialProblem& problem, NncRule rule);

}  // namespace snug::memory
