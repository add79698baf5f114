#include "engine/run/executors/serial_executor.h"

#include "engine/base/parallel.h"

namespace snug::core {

absl::Status SerialExecutor::Run(Failure* failure) {
  SetThreadsPerOp(executable_.threads);
  if (poison_ != nullptr) poison_->BeforeSteps();
  absl::Status status = RunSteps(failure);
  status.Update(steps_.EndRun(/*complete=*/status.ok()));
  running_.store(-1, std::memory_order_relaxed);
  return status;
}

absl::Status SerialExecutor::RunSteps(Failure* failure) {
  StepTime* const times = times_;
  int64_t now = times == nullptr ? 0 : MonotonicNanoseconds();
  for (size_t i = 0; i < steps_.size(); ++i) {
    running_.store(static_cast<int32_t>(i), std::memory_order_relaxed);
    failure->variables_changed |= executable_.steps[i].mutates;
    absl::Status status = steps_.Run(i);
    if (!status.ok()) {
      failure->step = i;
      return status;
    }
    if (times != nullptr) {
      const int64_t end = MonotonicNanoseconds();
      times[i] = {now, now, end, 0};
      now = end;
    }
    if (poison_ != nullptr) poison_->AfterStep(i);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
