// Measures when the Steps of a run began and ended on the device, by timed events around each.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <vector>

#include "engine/compile/schedule/streams.h"
#include "engine/cuda/cuda_stream.h"
#include "engine/run/executors/executor.h"

namespace snug::core {

class CudaStepTimes {
 public:
  static absl::StatusOr<std::unique_ptr<CudaStepTimes>> Create(const std::shared_ptr<const cuda::CudaDevice>& device,
                                                               size_t steps);

  // The device is asked for Start as a run begins, and for Begin and End before and after each Step.
  absl::Status Start(cuda::CudaStream& stream);
  absl::Status Begin(size_t step, cuda::CudaStream& stream) { return stream.Record(*begin_[step]); }
  absl::Status End(size_t step, cuda::CudaStream& stream) { return stream.Record(*end_[step]); }

  // Writes the times of each Step, on the host's clock, once all of them have passed. A stream turns to a Step as the
  // one before it ends.
  absl::Status Write(const Schedule& schedule, StepTime* times) const;

 private:
  std::unique_ptr<cuda::CudaEvent> start_;
  int64_t start_ns_ = 0;
  std::vector<std::unique_ptr<cuda::CudaEvent>> begin_, end_;  // indexed by Step
};

}  // namespace snug::core
