// The placement problem before any order is chosen: buffers used by tasks under a partial order. A plan of it is safe
// for every schedule that keeps the partial order, on any number of streams.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memory/partial_order.h"
#include "memory/problem.h"

namespace snug::memory {

struct PartialBuffer {
  std::string name;  // for reports
  int64_t size_bytes = 0;
  int64_t alignment = 64;
  int32_t kind = 0;  // buffers of different kinds never share bytes
  // Every task that uses the buffer is one of `heads` or after one, and one of `tails` or before one.
  std::vector<int32_t> heads, tails;
  int32_t companion = -1;  // must lie at the same offset; mutual, of one kind, and never in use at the same time
  // >= 0: a view of that buffer, which is none itself, from `view_offset` on; it has no bytes of its own.
  int32_t view_of = -1;
  int64_t view_offset = 0;
};

// Two buffers interfere if they are of one kind, unless all tails of one come before all heads of the other. Those that
// interfere must not overlap, nor must those of different kinds.
struct PartialProblem {
  int32_t tasks = 0;
  std::vector<Edge> edges;
  std::vector<PartialBuffer> buffers;
};

// Ids in range, heads and tails there, sizes, views and companions as they must be. (Cycles: PartialOrder finds them.)
absl::Status CheckPartialProblem(const PartialProblem& problem);

// What planners place: a view's uses become uses of the buffer it looks at, and it keeps no bytes.
PartialProblem WithoutViews(const PartialProblem& problem);
// Gives the views their offsets in a plan of that.
void PlaceViews(const PartialProblem& problem, Plan& plan);

// The same as lifetimes, where the tasks are in one sequence and the buffers of one kind. Companions are one buffer
// with a gap.
struct SerialForm {
  Problem problem;
  std::vector<int32_t> buffer_of;  // for each buffer of the partial problem

  Plan PlanOf(const PartialProblem& problem, const Plan& serial) const;
};
absl::StatusOr<SerialForm> ToSerial(const PartialProblem& problem);  // FailedPrecondition where they are not

}  // namespace snug::memory
