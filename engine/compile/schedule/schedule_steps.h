// The last stage gives the Steps of an Executable their streams and the waits between them, and proves that both
// suffice.
#pragma once

#include <absl/status/status.h>

#include "engine/compile/executable.h"
#include "engine/compile/memory/tasks.h"

namespace snug::core {

// The result is verified from the tasks, the plan and the schedule alone (verifier_waits.h), so a mistake in what was
// computed from them shows.
absl::Status ScheduleSteps(const StepTasks& tasks, int streams, Executable& executable);
absl::Status VerifySchedule(const StepTasks& tasks, const Executable& executable);

// Estimates what several streams bring, from the Steps' estimated costs.
struct StreamEstimate {
  double one_stream = 0;  // seconds that a step takes on one stream
  double scheduled = 0;   // on the streams of the schedule
  double unlimited = 0;   // on these streams, if nobody had to wait for bytes to be free
};
StreamEstimate EstimateStreams(const StepTasks& tasks, const Executable& executable);

}  // namespace snug::core
