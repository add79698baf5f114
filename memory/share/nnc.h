// NNC's tensor allocation: buffers are put into the edges of an allocation graph (allocation_graph.h), so that one may
// reuse a part of another's bytes. Where no edge takes a candidate, a new region opens.
//
// There are two rules for the next candidate. The later one (`nnc`) takes the largest buffer; ties go to the most
// interference. The one of NNC's document (`nnc-seed`) looks at the buffers with the most interference, alone and
// paired with a larger one that does not interfere. It orders these by size, then by interference, and takes the first
// that fits an edge, or else the first of all. As in NNC's implementation an edge may start at the source or end at the
// sink, which the document forbids (it costs memory, and saves none). Of several edges that fit, the one with the
// nearest ends takes the candidate.
//
// The document leaves open whether interference with buffers that are placed already counts, and what breaks ties. In
// `nnc` it counts, and ties go to the later position. In `nnc-seed` no answer is always the better one: singles come
// before pairs, both directions of the position are tried, with and without such interference, and the smallest result
// is kept. (Each of the four alone misses 10, 8, 6 or 4 of the 26 totals of the reference implementation, by up to a
// third. Together they miss none.)
#pragma once

#include <absl/status/statusor.h>

#include "memory/partial_problem.h"
#include "memory/planner.h"

namespace snug::core::memory {

enum class NncRule { kLater, kSeed };

// These two plan for a serial order, in O(n x edges). The seed's rule may look at every pair before it opens a region:
// it is for graphs of up to a few thousand buffers.
absl::StatusOr<Placement> PlaceNnc(const Problem& problem, const PlannerOptions& options);
absl::StatusOr<Placement> PlaceNncSeed(const Problem& problem, const PlannerOptions& options);

// Plans for a partial order, with views, companions and kinds.
absl::StatusOr<Plan> PlaceNncPartial(const PartialProblem& problem, NncRule rule);

}  // namespace snug::core::memory
