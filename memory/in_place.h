// Which outputs are written over their inputs. Every placer that allows in place decides it here, before it places: the
// chains become single buffers, and what is left is a problem without options.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "memory/planner.h"

namespace snug::memory {

// What to do with an output that is smaller than its input: in place it keeps the input's whole size for as long as it
// lives.
enum class SmallerOutputs {
  kWhereLoadFalls,  // in place where that lowers the bytes live at the hand-over and raises them nowhere above
  kAlways,          // for plans in which no two buffers share bytes otherwise
};

struct Folded {
  Problem problem;                 // no in_place
  std::vector<int32_t> buffer_of;  // for each buffer of the original problem
};

// Takes the pairs that save most first (ties: the earlier one, then the smaller ids), each output over at most one
// input and each input under at most one output. O(n log n).
Folded Fold(const Problem& problem, SmallerOutputs smaller = SmallerOutputs::kWhereLoadFalls);

// A plan of the folded problem as one of the original.
Plan Unfold(const Folded& folded, const Plan& plan);

// Folds, lets a placer that knows no options place the rest, unfolds. The report's bound holds for every choice of
// pairs.
absl::StatusOr<Placement> PlaceFolded(const Problem& problem, const PlannerOptions& options,
                                      absl::StatusOr<Placement> (*place)(const Problem&, const PlannerOptions&));

}  // namespace snug::memory
