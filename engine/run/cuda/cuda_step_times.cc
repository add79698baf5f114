#include "engine/run/cuda/cuda_step_times.h"

#include "engine/base/status.h"

namespace snug::core {

absl::StatusOr<std::unique_ptr<CudaStepTimes>> CudaStepTimes::Create(
    const std::shared_ptr<const cuda::CudaDevice>& device, size_t steps) {
  auto times = std::make_unique<CudaStepTimes>();
  SNUG_ASSIGN_OR_RETURN(times->start_, cuda::CudaEvent::Create(device, /*timed=*/true));
  for (size_t i = 0; i < steps; ++i) {
    SNUG_ASSIGN_OR_RETURN(times->begin_.emplace_back(), cuda::CudaEvent::Create(device, /*timed=*/true));
    SNUG_ASSIGN_OR_RETURN(times->end_.emplace_back(), cuda::CudaEvent::Create(device, /*timed=*/true));
  }
  return times;
}

absl::Status CudaStepTimes::Start(cuda::CudaStream& stream) {
  start_ns_ = MonotonicNanoseconds();
  return stream.Record(*start_);
}

absl::Status CudaStepTimes::Write(const Schedule& schedule, StepTime* times) const {
  const auto on_host = [this](const cuda::CudaEvent& event) -> absl::StatusOr<int64_t> {
    SNUG_ASSIGN_OR_RETURN(const double milliseconds, event.MillisecondsSince(*start_));
    return start_ns_ + static_cast<int64_t>(milliseconds * 1e6);
  };
  std::vector<int64_t> turns(schedule.streams.size(), start_ns_);
  for (size_t i = 0; i < begin_.size(); ++i) {
    const int32_t stream = schedule.stream_of[i];
    int64_t& turn = turns[static_cast<size_t>(stream)];
    SNUG_ASSIGN_OR_RETURN(const int64_t begin, on_host(*begin_[i]));
    SNUG_ASSIGN_OR_RETURN(const int64_t end, on_host(*end_[i]));
    times[i] = {turn, begin, end, stream};
    turn = end;
  }
  return absl::OkStatus();
}

}  // namespace snug::core
