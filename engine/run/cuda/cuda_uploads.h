// Inputs of the next step on their way to the device while a step runs: a stream for them, and the bytes on the device
// where they wait for their turn.
//
// As their step begins they are copied from there to where the plan has them. That copy takes the device about a
// hundredth of what the upload took. Without it a step would have to be two graphs, as a graph knows one address of
// each input, and the plan could not use an input's bytes again after the last reader, as the next upload needs them.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/cuda/cuda_arena.h"
#include "engine/cuda/cuda_stream.h"

namespace snug {

// Thread-compatible.
class CudaUploads {
 public:
  // bytes > 0. ResourceExhausted where the device has no room for them.
  static absl::StatusOr<std::unique_ptr<CudaUploads>> Create(const std::shared_ptr<const cuda::CudaDevice>& device,
                                                             int64_t bytes);

  std::byte* data() const { return arena_->data(); }
  int64_t size_bytes() const { return arena_->size_bytes(); }
  cuda::CudaStream& stream() const { return *stream_; }

  // The bytes are for one step at a time: for that of `owner`, until it gives them back. False: they are another's.
  bool Claim(const void* owner);
  void GiveBack(const void* owner);

  // The stream goes on when the last that waited here have been taken.
  absl::Status WaitUntilTaken() { return stream_->WaitFor(*taken_); }
  // They have been, once `by` comes here.
  absl::Status Taken(cuda::CudaStream& by) { return by.Record(*taken_); }

 private:
  CudaUploads() = default;

  // The stream, which still writes to the arena, ends first.
  std::unique_ptr<cuda::CudaArena> arena_;
  std::unique_ptr<cuda::CudaEvent> taken_;
  std::unique_ptr<cuda::CudaStream> stream_;
  const void* owner_ = nullptr;
};

}  // namespace snug
