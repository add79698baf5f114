// How what is fed and fetched gets from the host to the device and back.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cuda/cuda_arena.h"
#include "engine/cuda/cuda_stream.h"
#include "engine/run/cuda/cuda_streams.h"
#include "engine/run/executors/bound_steps.h"
#include "engine/run/session/program.h"

namespace snug::core {

// Brings inputs of the next step to the device while a step runs: it has a stream for them, and bytes on the device
// where they wait for their turn.
//
// When their step begins they are copied from there to where the plan has them. That copy takes the device about a
// hundredth of the time of the upload. Without it a step would have to be two graphs, because a graph knows one address
// for each input, and the plan could not use an input's bytes again after the last reader, because the next upload
// needs them. Thread-compatible.
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

// The host's bytes of what is fed and fetched. They are pinned. Inputs are copied from them to the device as a step
// begins, or while the step before runs; outputs are copied to them as it ends, large ones only when they are asked
// for.
class CudaStaging {
 public:
  // All must outlive it. Everything goes through the first stream, except what is uploaded ahead. If `uploads` is null,
  // nothing is uploaded ahead, and inputs may not be fed while a step runs.
  static absl::StatusOr<std::unique_ptr<CudaStaging>> Create(const Executable& executable, const ArenaBytes& arenas,
                                                             const CudaStreams& streams, CudaUploads* uploads);
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  std::byte* InputBytes(size_t input) const { return inputs_[input].host[filling_]; }
  // Returns null if the output is the caller's and nothing is bound.
  std::byte* OutputBytes(size_t output) const;

  absl::Status Feed(size_t input);    // waits until its bytes can be written to
  absl::Status Fetch(size_t output);  // waits for an output that was not copied yet

  // Sends what was fed to where it waits for its step. Does nothing if another program's inputs wait there.
  absl::Status UploadAhead();
  bool IsAhead(size_t input) const { return inputs_[input].ahead; }

  // BringInputs is called as a step begins and brings what was fed to where the step looks for it; DownloadSmall is
  // called as it ends.
  absl::Status BringInputs();
  absl::Status DownloadSmall();

 private:
  // If inputs are uploaded ahead, the host has each twice: one is filled while the device may still read the other.
  static constexpr size_t kSides = 2;
  struct Input {
    std::array<std::byte*, kSides> host = {};
    bool fed = false;    // it is fed and not sent yet
    bool ahead = false;  // it was sent, and waits for its step
  };
  struct Side {
    std::unique_ptr<cuda::CudaEvent> read;  // passes when the device has read this side
    bool in_flight = false;                 // whether `read` may not have passed yet
  };
  struct Output {
    std::byte* host = nullptr;
    bool here = true;
  };

  CudaStaging(const Executable& executable, const ArenaBytes& arenas, const CudaStreams& streams, CudaUploads* uploads,
              std::unique_ptr<cuda::PinnedBytes> bytes);
  absl::Status MakeEvents();
  absl::Status SendAhead();
  absl::Status SendFed();
  absl::Status TakeAhead();
  absl::Status TurnSides(cuda::CudaStream& reader);
  bool AnyAhead() const;
  absl::Status Download(size_t output);

  const Executable& executable_;
  const ArenaBytes arenas_;
  const CudaStreams& streams_;
  CudaUploads* const uploads_;
  const UploadLayout layout_;  // says where each input lies in pinned bytes and uploads
  const std::unique_ptr<cuda::PinnedBytes> bytes_;
  std::vector<Input> inputs_;
  std::array<Side, kSides> sides_;
  size_t filling_ = 0;  // the side that is being filled
  size_t ahead_ = 0;    // the side that was uploaded ahead last
  std::vector<Output> outputs_;
};

}  // namespace snug::core
