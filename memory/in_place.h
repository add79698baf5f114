// Decides which outputs are written over their inputs. Every placer that supports in-place pairs does so before it
// places: the chains become single buffers, and what is left is a problem without options.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "memory/planner.h"

namespace snug::core::memory {

// Says what to do with an output that is smaller than its input: in place it would keep the input's whole size for as
// long as it lives.
enum class SmallerOutputs {
  kWhereLoadFalls,  // in place if that lowers the bytes live at the hand-over and raises them nowhere above those
  kAlways,          // right for plans in which buffers share bytes in no other way
};

struct Folded {
  Problem problem;                 // has no in_place pairs
  std::vector<int32_t> buffer_of;  // the buffer here for each buffer of the original problem
};

// Takes the pairs that save most first (ties: the earlier one, then the smaller ids). Each output lies over at most one
// input, and each input under at most one output. O(n log n).
Folded Fold(const Problem& problem, SmallerOutputs smaller = SmallerOutputs::kWhereLoadFalls);

// Turns a plan of the folded problem into one of the original.
Plan Unfold(const Folded& folded, const Plan& plan);

// Folds, lets `place` place the rest, and unfolds. The report's bound holds for every choice of pairs.
absl::StatusOr<Placement> PlaceFolded(const Problem& problem, const PlannerOptions& options,
                                      absl::StatusOr<Placement> (*place)(const Problem&, const PlannerOptions&));

}  // namespace snug::core::memory
