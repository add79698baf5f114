// `snug bench --scaling`: what a step would take on more threads than were measured.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

#include "engine/run/observe/step_timer.h"

namespace snug::core::cli {

// Times steps on one thread, on two, and on `threads` if that is more, in turn for at least `seconds` each, and prints
// the model (engine/run/observe/scaling.h) as a table or a JSON document. `timer` makes the steps for a number of
// threads.
absl::Status BenchScaling(const std::string& network,
                          const std::function<absl::StatusOr<std::unique_ptr<StepTimer>>(int threads)>& timer,
                          int threads, double seconds, bool json);

}  // namespace snug::core::cli
