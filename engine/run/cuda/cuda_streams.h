// The streams of a session on a CUDA device, which are made as its programs need them, with what launches kernels on
// each.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <vector>

#include "engine/cuda/cuda_launch.h"
#include "engine/cuda/cuda_stream.h"

namespace snug::core {

class CudaStreams {
 public:
  explicit CudaStreams(std::shared_ptr<const cuda::CudaDevice> device) : device_(std::move(device)) {}

  // Makes at least so many streams. None ever moves.
  absl::Status GrowTo(size_t count) {
    while (streams_.size() < count) {
      absl::StatusOr<std::unique_ptr<cuda::CudaStream>> made = cuda::CudaStream::Create(device_);
      if (!made.ok()) return made.status();
      launches_.push_back(std::make_unique<cuda::LaunchContext>(**made));
      streams_.push_back(*std::move(made));
    }
    return absl::OkStatus();
  }

  cuda::CudaStream& operator[](size_t stream) const { return *streams_[stream]; }
  const cuda::LaunchContext* launch(size_t stream) const { return launches_[stream].get(); }
  std::vector<cuda::CudaStream*> all() const {
    std::vector<cuda::CudaStream*> all;
    for (const auto& stream : streams_) all.push_back(stream.get());
    return all;
  }
  const std::shared_ptr<const cuda::CudaDevice>& device() const { return device_; }

  // From the next step on, puts steps between the work before and after them on an embedding program's stream.
  absl::Status Follow(CUstream_st* stream) {
    absl::StatusOr<std::unique_ptr<cuda::CallerStream>> made = cuda::CallerStream::Create(device_, stream);
    if (!made.ok()) return made.status();
    caller_ = *std::move(made);
    return absl::OkStatus();
  }
  const cuda::CallerStream* caller() const { return caller_.get(); }  // null: there is none

 private:
  const std::shared_ptr<const cuda::CudaDevice> device_;
  std::vector<std::unique_ptr<cuda::CudaStream>> streams_;
  std::vector<std::unique_ptr<cuda::LaunchContext>> launches_;
  std::unique_ptr<cuda::CallerStream> caller_;
};

}  // namespace snug::core
