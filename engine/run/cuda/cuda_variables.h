// The Variables of a session on a CUDA device: the state arena there, and the same bytes as the host sees them, copied
// when somebody looks at them and when somebody has written to them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>

#include "engine/cuda/cuda_arena.h"
#include "engine/run/backend.h"
#include "engine/run/cuda/cuda_streams.h"
#include "memory/host_arena.h"

namespace snug {

class CudaVariables {
 public:
  // `streams` must outlive it, and have one.
  static absl::StatusOr<std::unique_ptr<CudaVariables>> Create(const CudaStreams& streams, int64_t bytes);

  std::byte* on_device() const { return device_->data(); }
  int64_t size_bytes() const { return device_->size_bytes(); }

  absl::StatusOr<std::byte*> OnHost(int64_t offset, int64_t bytes, HostAccess access);
  // What the host may have written goes to the device, by the first stream.
  absl::Status Upload();
  // The device's bytes may be others now.
  void Ran() { fresh_.clear(); }

 private:
  CudaVariables(const CudaStreams& streams, std::unique_ptr<cuda::CudaArena> device,
                std::unique_ptr<memory::HostArena> host)
      : streams_(streams), device_(std::move(device)), host_(std::move(host)) {}

  using Ranges = std::map<int64_t, int64_t>;  // from the first byte: how many

  const CudaStreams& streams_;
  const std::unique_ptr<cuda::CudaArena> device_;
  // Not pinned: but for a learning rate, nothing goes over it in a step.
  const std::unique_ptr<memory::HostArena> host_;
  Ranges fresh_;    // of the host's: as on the device, or newer
  Ranges written_;  // of the host's: newer
};

}  // namespace snug
