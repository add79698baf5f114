// The Variables of a session on a CUDA device: the state arena there, and the same bytes as the host sees them. They
// are copied when somebody looks at them, and when somebody has written to them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>

#include "engine/cuda/cuda_arena.h"
#include "engine/run/cuda/cuda_streams.h"
#include "engine/run/session/backend.h"
#include "memory/host_arena.h"

namespace snug::core {

class CudaVariables {
 public:
  // `streams` must outlive it, and must have one.
  static absl::StatusOr<std::unique_ptr<CudaVariables>> Create(const CudaStreams& streams, int64_t bytes);

  std::byte* on_device() const { return device_->data(); }
  int64_t size_bytes() const { return device_->size_bytes(); }

  absl::StatusOr<std::byte*> OnHost(int64_t offset, int64_t bytes, HostAccess access);
  // Sends what the host may have written to the device, on the first stream.
  absl::Status Upload();
  // Says that a run may have changed the device's bytes.
  void Ran() { fresh_.clear(); }

 private:
  CudaVariables(const CudaStreams& streams, std::unique_ptr<cuda::CudaArena> device,
                std::unique_ptr<memory::HostArena> host)
      : streams_(streams), device_(std::move(device)), host_(std::move(host)) {}

  using Ranges = std::map<int64_t, int64_t>;  // maps a first byte to the number of bytes

  const CudaStreams& streams_;
  const std::unique_ptr<cuda::CudaArena> device_;
  // It is not pinned, because in a step hardly more than a learning rate goes through it.
  const std::unique_ptr<memory::HostArena> host_;
  Ranges fresh_;    // ranges in which the host's bytes are as on the device, or newer
  Ranges written_;  // ranges in which the host's bytes are newer
};

}  // namespace snug::core
