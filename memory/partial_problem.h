// The placement problem before an order is chosen: buffers used by tasks under a partial order. Its plans are safe for
// every schedule that keeps the partial order, on any number of streams.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memory/partial_order.h"
#include "memory/problem.h"

namespace snug::core::memory {

struct PartialBuffer {
  std::string name;  // only for reports
  int64_t size_bytes = 0;
  int64_t alignment = 64;
  int32_t kind = 0;  // buffers of different kinds never share bytes
  // Every task that uses the buffer is one of `heads` or follows one, and is one of `tails` or precedes one.
  std::vector<int32_t> heads, tails;
  int32_t companion = -1;  // the buffer that must lie at the same offset and names this one in turn; of the same kind,
                           // and never in use at the same time
  // If >= 0, this buffer is a view of that one from `view_offset` on and has no bytes of its own. A view is never of a
  // view.
  int32_t view_of = -1;
  int64_t view_offset = 0;
};

// Two buffers of one kind interfere unless all tails of one come before all heads of the other. Buffers that interfere
// must not overlap, nor must buffers of different kinds.
struct PartialProblem {
  int32_t tasks = 0;
  std::vector<Edge> edges;
  std::vector<PartialBuffer> buffers;
};

// Checks that ids are in range, that each buffer has heads and tails, and sizes, views and companions. (PartialOrder
// finds cycles.)
absl::Status CheckPartialProblem(const PartialProblem& problem);

// Returns what planners place: a view's uses become uses of its buffer, and it has no bytes.
PartialProblem WithoutViews(const PartialProblem& problem);
// Gives the views their offsets, in a plan for the result of WithoutViews.
void PlaceViews(const PartialProblem& problem, Plan& plan);

// The problem as lifetimes, for tasks in one sequence and buffers of one kind. Companions become one buffer with a gap.
struct SerialForm {
  Problem problem;
  std::vector<int32_t> buffer_of;  // the buffer in `problem` for each buffer of the partial problem

  Plan PlanOf(const PartialProblem& problem, const Plan& serial) const;
};
absl::StatusOr<SerialForm> ToSerial(const PartialProblem& problem);  // FailedPrecondition where the tasks or buffers
                                                                     // are not like that

}  // namespace snug::core::memory
