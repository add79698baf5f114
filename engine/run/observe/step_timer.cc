#include "engine/run/observe/step_timer.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/run/session/random_feed.h"

namespace snug::core {
namespace {

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

absl::StatusOr<std::unique_ptr<StepTimer>> StepTimer::Create(Compiled compiled, const OpRegistry& registry,
                                                             const SessionOptions& options) {
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(std::move(compiled), options));
  SNUG_RETURN_IF_ERROR(FeedRandom(*session, registry, options.seed));
  return std::unique_ptr<StepTimer>(new StepTimer(std::move(session)));
}

absl::Status StepTimer::Step(bool warm_up) {
  inputs_.Feed();
  const double cpu_before = CpuSeconds();
  const int64_t begin = MonotonicNanoseconds();
  SNUG_RETURN_IF_ERROR(session_->Run());
  const int64_t end = MonotonicNanoseconds();
  if (warm_up) return absl::OkStatus();
  cpu_seconds_.push_back(CpuSeconds() - cpu_before);
  seconds_.push_back(static_cast<double>(end - begin) * 1e-9);
  for (size_t i = 0; i < times_.size(); ++i) {
    kernel_seconds_[i].push_back(static_cast<double>(times_[i].end_ns - times_[i].begin_ns) * 1e-9);
  }
  return absl::OkStatus();
}

void StepTimer::TimeKernels() {
  times_.resize(session_->compiled().executable.steps.size());
  kernel_seconds_.resize(times_.size());
  session_->executor().SetTimes(times_.data());
}

std::vector<double> StepTimer::MedianKernelSeconds() const {
  std::vector<double> medians;
  for (const std::vector<double>& seconds : kernel_seconds_) medians.push_back(Median(seconds));
  return medians;
}

std::vector<double> StepTimer::LeastKernelSeconds() const {
  std::vector<double> least;
  for (const std::vector<double>& seconds : kernel_seconds_) {
    least.push_back(seconds.empty() ? 0 : *std::min_element(seconds.begin(), seconds.end()));
  }
  return least;
}

StepTimer::WholeStep StepTimer::Fastest() const {
  if (seconds_.empty()) return {};
  const auto fastest = std::min_element(seconds_.begin(), seconds_.end()) - seconds_.begin();
  WholeStep step = {.seconds = seconds_[static_cast<size_t>(fastest)]};
  for (const std::vector<double>& seconds : kernel_seconds_) {
    step.kernel_seconds.push_back(seconds[static_cast<size_t>(fastest)]);
  }
  return step;
}

absl::Status StepInTurn(absl::Span<StepTimer* const> timers, double seconds, int least, int warm_ups) {
  for (int i = 0; i < warm_ups; ++i) {
    for (StepTimer* const timer : timers) SNUG_RETURN_IF_ERROR(timer->Step(/*warm_up=*/true));
  }
  const int64_t begin = MonotonicNanoseconds();
  for (int i = 0; i < least || static_cast<double>(MonotonicNanoseconds() - begin) * 1e-9 < seconds; ++i) {
    for (StepTimer* const timer : timers) SNUG_RETURN_IF_ERROR(timer->Step());
  }
  return absl::OkStatus();
}

}  // namespace snug::core
