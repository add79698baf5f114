// A stream that is not ours, and what makes work on ours come after what it was given, and before what it is given.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>

#include "engine/cuda/cuda_stream.h"

namespace snug::cuda {

// Thread-compatible.
class CallerStream {
 public:
  // A cudaStream_t of this device, which outlives this; null: CUDA's default one.
  static absl::StatusOr<std::unique_ptr<CallerStream>> Create(std::shared_ptr<const CudaDevice> device,
                                                              CUstream_st* handle);
  ~CallerStream();
  CallerStream(const CallerStream&) = delete;
  CallerStream& operator=(const CallerStream&) = delete;

  // `ours` goes on when what theirs has been given so far is done; nobody else waits.
  absl::Status ComesBefore(const CudaStream& ours) const;
  // Theirs goes on when what `ours` has been given so far is done.
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

}  // namespace snug::cuda
