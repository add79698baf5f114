// Observes steps while they run, for the profile and the trace that were asked for.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/text/json.h"
#include "engine/run/observe/profiler.h"
#include "engine/run/observe/roofline.h"
#include "engine/run/observe/trace.h"
#include "engine/run/session/session.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/roofline_flag.h"

namespace snug::core::cli {

struct ObserverFlags {
  bool profile = false;
  RooflineFlag roofline;
  std::string trace;

  void AddTo(Flags& flags);
};

class StepObserver {
 public:
  // When each part of a step began, as MonotonicNanoseconds gives it.
  struct Moments {
    int64_t feed = 0, run = 0, fetch = 0, end = 0;
  };

  // Fails before anything is compiled when the trace cannot be written.
  static absl::StatusOr<StepObserver> Create(const ObserverFlags& flags);

  // Observes the first program of `session`, which must be there as long as steps and tables are asked for, and runs no
  // step once this is gone. Fails if the roofline that was asked for cannot be predicted.
  absl::Status Attach(Session& session, const OpRegistry& registry, int64_t steps);
  // Must be called after each step.
  void AddStep(const Moments& moments);
  // Writes the rest of the trace.
  absl::Status Finish();

  const Profiler* profiler() const { return profiler_.get(); }  // null when it was not asked for
  // Returns both tables, of the profile and the roofline; empty when they were not asked for.
  std::string Tables() const;
  // Writes both as the values of keys, where they were asked for.
  void WriteJson(Json& json) const;

 private:
  explicit StepObserver(const ObserverFlags& flags) : profile_(flags.profile), roofline_flag_(flags.roofline) {}

  bool profile_;
  RooflineFlag roofline_flag_;
  std::optional<Roofline> roofline_;
  bool skip_first_ = false;  // whether the profile leaves out the first step
  std::unique_ptr<OutputFile> trace_file_;
  std::vector<StepTime> times_;
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<Trace> trace_;
};

}  // namespace snug::core::cli
