// The last stage: streams for the Steps of an Executable, the waits between them, and the proof that both suffice.
#pragma once

#include <absl/status/status.h>

#include "engine/compile/executable.h"
#include "engine/compile/tasks.h"

namespace snug {

// Verified: by the tasks, the plan and the schedule, with nothing that was worked out from them (verifier_waits.h).
absl::Status ScheduleSteps(const StepTasks& tasks, int streams, Executable& executable);
absl::Status VerifySchedule(const StepTasks& tasks, const Executable& executable);

// What several streams bring, by the Steps' estimated costs.
struct StreamEstimate {
  double one_stream = 0;  // seconds of one step on one stream
  double scheduled = 0;   // on the streams of the schedule
  double unlimited = 0;   // on them, did nobody wait for bytes to be free
};
StreamEstimate EstimateStreams(const StepTasks& tasks, const Executable& executable);

}  // namespace snug
