#include "tools/cli/step_observer.h"

#include <utility>

#include "engine/base/status.h"

namespace snug::core::cli {

void ObserverFlags::AddTo(Flags& flags) {
  flags.Add("profile", &profile,
            "print time, GFLOP/s and GB/s per op and per node, and how busy each stream was; the first of several "
            "steps is left out");
  flags.Add("trace", &trace,
            "write what ran when, on which stream, what waited for what and how much memory was live into this file, "
            "for ui.perfetto.dev or chrome://tracing");
}

absl::StatusOr<StepObserver> StepObserver::Create(const ObserverFlags& flags) {
  StepObserver observer(flags.profile);
  if (!flags.trace.empty()) {
    SNUG_ASSIGN_OR_RETURN(observer.trace_file_, OutputFile::Create(flags.trace));
  }
  return observer;
}

void StepObserver::Attach(Session& session, const OpRegistry& registry, int64_t steps) {
  const Compiled& compiled = session.compiled();
  if (profile_) profiler_ = std::make_unique<Profiler>(compiled, registry);
  if (trace_file_ != nullptr) trace_ = std::make_unique<Trace>(std::move(trace_file_), compiled, registry);
  if (profiler_ == nullptr && trace_ == nullptr) return;
  skip_first_ = steps > 1;
  times_.resize(compiled.executable.steps.size());
  session.executor().SetTimes(times_.data());
}

void StepObserver::AddStep(const Moments& moments) {
  if (profiler_ != nullptr && !std::exchange(skip_first_, false)) profiler_->AddStep(times_);
  if (trace_ == nullptr) return;
  trace_->AddHost("feed", moments.feed, moments.run);
  trace_->AddHost("run", moments.run, moments.fetch);
  trace_->AddHost("fetch", moments.fetch, moments.end);
  trace_->AddStep(times_);
}

absl::Status StepObserver::Finish() { return trace_ == nullptr ? absl::OkStatus() : trace_->Finish(); }

}  // namespace snug::core::cli
