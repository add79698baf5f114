// Finds offsets by integer linear programming: section 3.3 of OLLA for lifetimes that are known (program 15). The
// switches are in olla_options.h, the solver in ilp/.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "memory/planner.h"

namespace snug::core::memory {

// Uses pyramid, fast_start and warm_start of options.olla. Stops at work_limit iterations of the simplex method or at
// time_limit with the best plan so far (ilp/anytime.h). The first plan is that of greedy lists, or with fast_start that
// of `exact`. The lower bound holds for all plans of the problem; the report's notes say how far it came.
absl::StatusOr<Placement> PlaceOlla(const Problem& problem, const PlannerOptions& options);

struct OffsetsGoal {
  int64_t enough = 0;  // a smaller arena would be no better
  int64_t most = 0;    // a larger arena is useless
  int64_t work = 0;    // IlpOptions::work
};

struct OffsetsResult {
  bool solved = false;
  int64_t work = 0;
  std::string left_out;  // why the solver was not asked; empty when it was
};

// Runs the program itself, as a stage of a search. `found` is called with every plan that the solver finds, `tighten`
// with every new bound of the arena.
absl::StatusOr<OffsetsResult> SolveOffsets(const Problem& problem, const OffsetsGoal& goal, const OllaOptions& olla,
                                           const std::function<void(const Plan& plan)>& found,
                                           const std::function<void(int64_t bound)>& tighten);

}  // namespace snug::core::memory
