// Brings inputs of the next step to the device while a step runs: it has a stream for them, and bytes on the device
// where they wait for their turn.
//
// When their step begins they are copied from there to where the plan has them. That copy takes the device about a
// hundredth of the time of the upload. Without it a step would have to be two graphs, because a graph knows one address
// for each input, and the plan could not use an input's bytes again after the last reader, because the next upload
// needs them.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/cuda/cuda_arena.h"
#include "engine/cuda/cuda_stream.h"

namespace snug::core {

// Thread-compatible.
class CudaUploads {
 public:
  // `bytes` has to be above 0. Fails with ResourceExhausted if the device has no room for them.
  static absl::StatusOr<std::unique_ptr<CudaUploads>> Create(const std::shared_ptr<const cuda::CudaDevice>& device,
                                                             int64_t bytes);

  std::byte* data() const { return arena_->data(); }
  int64_t size_bytes() const { return arena_->size_bytes(); }
  cuda::CudaStream& stream() const { return *stream_; }

  // Reserves the bytes for one step, that of `owner`, until it gives them back. Returns false if they are another's.
  bool Claim(const void* owner);
  void GiveBack(const void* owner);

  // Makes the stream wait until what was uploaded last has been taken.
  absl::Status WaitUntilTaken() { return stream_->WaitFor(*taken_); }
  // Says that it has been taken when `by` comes here.
  absl::Status Taken(cuda::CudaStream& by) { return by.Record(*taken_); }

 private:
  CudaUploads() = default;

  // The stream is a later member, so it ends before the arena to which it may still write.
  std::unique_ptr<cuda::CudaArena> arena_;
  std::unique_ptr<cuda::CudaEvent> taken_;
  std::unique_ptr<cuda::CudaStream> stream_;
  const void* owner_ = nullptr;
};

}  // namespace snug::core
