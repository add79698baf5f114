// Offsets by integer linear programming: section 3.3 of OLLA for lifetimes that are known (program 15). The switches
// are in olla_options.h; the solver in ilp/.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "memory/planner.h"

namespace snug::memory {

// Of options.olla: pyramid, fast_start, warm_start. Stops at work_limit iterations of the simplex method or at
// time_limit with the best plan so far (ilp/anytime.h), which is at first that of greedy lists, and with fast_start
// that of `exact`. The lower bound is one over all plans of the problem; the report's notes say how far it came.
absl::StatusOr<Placement> PlaceOlla(const Problem& problem, const PlannerOptions& options);

struct OffsetsGoal {
  int64_t enough = 0;  // an arena of so many bytes is as good as less
  int64_t most = 0;    // one of more is of no use
  int64_t work = 0;    // IlpOptions::work
};

struct OffsetsResult {
  bool solved = false;
  int64_t work = 0;
  std::string left_out;  // not empty: why the solver was not asked
};

// The program itself, for a stage of a search: `found` hears of every plan that the solver comes upon, `tighten` of
// arenas that no plan of the problem is below, as they come.
absl::StatusOr<OffsetsResult> SolveOffsets(const Problem& problem, const OffsetsGoal& goal, const OllaOptions& olla,
                                           const std::function<void(const Plan& plan)>& found,
                                           const std::function<void(int64_t bound)>& tighten);

}  // namespace snug::memory
