// What a run folder says about its training beside the metrics (run.json): the network, how long it is to be, what
// memory was planned for it, the options that it was given, and how it ended. It says the same of the same training,
// whenever and wherever that runs: no times, no paths, no process.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/metric_direction.h"
#include "engine/train/option_change.h"
#include "engine/train/run_folder.h"

namespace snug::core::runs {

struct RunRecord {
  std::string network;
  std::string state = "running";  // or "done", "stopped" (by a signal: --resume goes on), "failed"
  std::string error;              // what made it fail
  int64_t batch = 0, steps = 0, steps_per_epoch = 0;
  int64_t state_bytes = 0, step_bytes = 0;
  std::vector<std::pair<std::string, std::string>> options;  // as flags name them; those at their defaults are left out
  std::vector<OptionChange> changes;                         // of them, where the training went on
  std::vector<KnownMetric> metrics;                          // which of their values are better

  // Of metrics that it does not name, as those of older versions, the name says it, or nothing does.
  Better BetterOf(const std::string& metric) const;

  std::string ToJson() const;
  // What it does not know is passed over. The error says at which byte what was expected.
  static absl::StatusOr<RunRecord> Parse(absl::string_view json);

  absl::Status WriteTo(const RunFolder& folder) const;
  // NotFound where there is no such file: older trainings left none.
  static absl::StatusOr<RunRecord> ReadFrom(const RunFolder& folder);
};

}  // namespace snug::core::runs
