#include "tools/cli/step_observer.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "ops/platform.h"

namespace snug::core::cli {

void ObserverFlags::AddTo(Flags& flags) {
  flags.Add("profile", &profile,
            "print time, GFLOP/s and GB/s per op and per node, and how busy each stream was; the first of several "
            "steps is left out");
  roofline.AddTo(flags, "with --profile: print what is measured beside how long each kernel was predicted to take");
  flags.Add("trace", &trace,
            "write what ran when, on which stream, what waited for what and how much memory was live into this file, "
            "for ui.perfetto.dev or chrome://tracing");
}

absl::StatusOr<StepObserver> StepObserver::Create(const ObserverFlags& flags) {
  if (flags.roofline.asked() && !flags.profile) {
    return absl::InvalidArgumentError(
        "--roofline shows predictions beside what is measured: expected --profile, too "
        "(`snug plan --roofline` shows predictions alone)");
  }
  StepObserver observer(flags);
  if (!flags.trace.empty()) {
    SNUG_ASSIGN_OR_RETURN(observer.trace_file_, OutputFile::Create(flags.trace));
  }
  return observer;
}

absl::Status StepObserver::Attach(Session& session, const OpRegistry& registry, int64_t steps) {
  const Compiled& compiled = session.compiled();
  if (profile_) profiler_ = std::make_unique<Profiler>(compiled, registry);
  if (trace_file_ != nullptr) trace_ = std::make_unique<Trace>(std::move(trace_file_), compiled, registry);
  if (roofline_flag_.asked()) {
    const absl::StatusOr<Platform> here = PlatformOf(compiled.device);
    SNUG_ASSIGN_OR_RETURN(const DeviceModel device,
                          roofline_flag_.Model(compiled.device, here.ok() ? here->device : ""));
    roofline_ = PredictStep(compiled, registry, device, /*one_by_one=*/true);
  }
  if (profiler_ == nullptr && trace_ == nullptr) return absl::OkStatus();
  skip_first_ = steps > 1;
  times_.resize(compiled.executable.steps.size());
  session.executor().SetTimes(times_.data());
  return absl::OkStatus();
}

void StepObserver::AddStep(const Moments& moments) {
  if (profiler_ != nullptr && !std::exchange(skip_first_, false)) profiler_->AddStep(times_);
  if (trace_ == nullptr) return;
  trace_->AddHost("feed", moments.feed, moments.run);
  trace_->AddHost("run", moments.run, moments.fetch);
  trace_->AddHost("fetch", moments.fetch, moments.end);
  trace_->AddStep(times_);
}

std::string StepObserver::Tables() const {
  if (profiler_ == nullptr) return "";
  if (!roofline_.has_value()) return profiler_->Table();
  return absl::StrCat(profiler_->Table(), "\n", RooflineTable(*roofline_, profiler_->StepSeconds()));
}

void StepObserver::WriteJson(Json& json) const {
  if (profiler_ == nullptr) return;
  profiler_->WriteJson(json.Key("profile"));
  if (roofline_.has_value()) WriteRoofline(*roofline_, profiler_->StepSeconds(), json.Key("roofline"));
}

absl::Status StepObserver::Finish() { return trace_ == nullptr ? absl::OkStatus() : trace_->Finish(); }

}  // namespace snug::core::cli
