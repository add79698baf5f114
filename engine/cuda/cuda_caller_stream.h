// A stream that is not ours. It puts work on our streams after what it was given before, and before what it is given
// later.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>

#include "engine/cuda/cuda_stream.h"

namespace snug::core::cuda {

// Thread-compatible.
class CallerStream {
 public:
  // `handle` is a cudaStream_t of this device and outlives this; null: CUDA's default stream.
  static absl::StatusOr<std::unique_ptr<CallerStream>> Create(std::shared_ptr<const CudaDevice> device,
                                                              CUstream_st* handle);
  ~CallerStream();
  CallerStream(const CallerStream&) = delete;
  CallerStream& operator=(const CallerStream&) = delete;

  // Makes `ours` wait for what their stream has been given so far. Nobody else waits.
  absl::Status ComesBefore(const CudaStream& ours) const;
  // Makes their stream wait for what `ours` has been given so far.
  absl::Status ComesAfter(const CudaStream& ours) const;

 private:
  CallerStream(std::shared_ptr<const CudaDevice> device, CUstream_st* handle)
      : device_(std::move(device)), handle_(handle) {}
  absl::Status Order(CUstream_st* first, CUstream_st* second, CUevent_st* event) const;

  const std::shared_ptr<const CudaDevice> device_;
  CUstream_st* const handle_;
  CUevent_st* begun_ = nullptr;
  CUevent_st* ended_ = nullptr;
};

}  // namespace snug::core::cuda
