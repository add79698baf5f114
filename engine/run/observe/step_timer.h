// Measures how long the steps of programs take, on seeded random data and each in a session of its own. Several take
// turns, so that whatever else the machine does affects all of them alike.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <memory>
#include <vector>

#include "engine/run/session/saved_inputs.h"
#include "engine/run/session/session.h"

namespace snug::core {

double Median(std::vector<double> values);  // 0 when there are none

class StepTimer {
 public:
  static absl::StatusOr<std::unique_ptr<StepTimer>> Create(Compiled compiled, const OpRegistry& registry,
                                                           const SessionOptions& options);

  // Runs one step. Its time counts unless `warm_up` is true.
  absl::Status Step(bool warm_up = false);

  const std::vector<double>& seconds() const { return seconds_; }
  double MedianSeconds() const { return Median(seconds_); }
  double MedianCpuSeconds() const { return Median(cpu_seconds_); }  // summed over all threads
  Session& session() { return *session_; }
  const Session& session() const { return *session_; }

  void Clear() {  // forgets all times so far
    seconds_.clear();
    cpu_seconds_.clear();
    for (std::vector<double>& seconds : kernel_seconds_) seconds.clear();
  }

  // From now on the time of each Step is kept too; the results are by its number.
  void TimeKernels();
  std::vector<double> MedianKernelSeconds() const;
  std::vector<double> LeastKernelSeconds() const;
  // Of the step that was the fastest, so that the parts make up the whole, and what else the machine did is in neither.
  struct WholeStep {
    double seconds = 0;
    std::vector<double> kernel_seconds;
  };
  WholeStep Fastest() const;

 private:
  explicit StepTimer(std::unique_ptr<Session> session) : session_(std::move(session)), inputs_(*session_) {}

  std::unique_ptr<Session> session_;
  SavedInputs inputs_;
  std::vector<double> seconds_, cpu_seconds_;
  std::vector<StepTime> times_;                      // of the latest step
  std::vector<std::vector<double>> kernel_seconds_;  // by Step, the times in each step
};

// Does warm-ups, then one step of each in turn until `seconds` have passed and each has done at least `least`.
absl::Status StepInTurn(absl::Span<StepTimer* const> timers, double seconds, int least, int warm_ups = 2);

}  // namespace snug::core
