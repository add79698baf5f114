// What is fed and fetched, on the host: pinned bytes, from which inputs are copied to the device as a step begins, or
// while the step before runs, and to which outputs are copied as it ends; large ones only when they are asked for.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "engine/run/bound_steps.h"
#include "engine/run/cuda/cuda_streams.h"
#include "engine/run/cuda/cuda_uploads.h"
#include "engine/run/upload_layout.h"

namespace snug {

class CudaStaging {
 public:
  // All must outlive it. Everything goes by the first stream, but what is uploaded ahead. `uploads` null: nothing is;
  // then inputs are not to be fed while a step runs.
  static absl::StatusOr<std::unique_ptr<CudaStaging>> Create(const Executable& executable, const ArenaBytes& arenas,
                                                             const CudaStreams& streams, CudaUploads* uploads);
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  std::byte* InputBytes(size_t input) const { return inputs_[input].host[filling_]; }
  // Null: it is the caller's, and nothing is bound.
  std::byte* OutputBytes(size_t output) const;

  absl::Status Feed(size_t input);    // waits until its bytes can be written to
  absl::Status Fetch(size_t output);  // waits for what was not copied yet

  // What was fed goes to where it waits for its step; does nothing where that is not to be had.
  absl::Status UploadAhead();
  bool IsAhead(size_t input) const { return inputs_[input].ahead; }

  // As a step begins: what was fed is where the step looks for it. As it ends.
  absl::Status BringInputs();
  absl::Status DownloadSmall();

 private:
  // Of the host's bytes for inputs there are two where inputs are uploaded ahead: one is filled while the device may
  // still read the other.
  static constexpr size_t kSides = 2;
  struct Input {
    std::array<std::byte*, kSides> host = {};
    bool fed = false;    // and not sent yet
    bool ahead = false;  // sent, and waiting for its step
  };
  struct Side {
    std::unique_ptr<cuda::CudaEvent> read;  // by the device
    bool in_flight = false;                 // it may not have passed
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
  const UploadLayout layout_;  // in their bytes
  const std::unique_ptr<cuda::PinnedBytes> bytes_;
  std::vector<Input> inputs_;
  std::array<Side, kSides> sides_;
  size_t filling_ = 0;  // which of the sides
  size_t ahead_ = 0;    // which was uploaded ahead last
  std::vector<Output> outputs_;
};

}  // namespace snug
