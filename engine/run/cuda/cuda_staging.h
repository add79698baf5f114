// What is fed and fetched, on the host: pinned bytes, from which inputs are copied to the device as a step begins, and
// to which outputs are copied as it ends; large ones only when they are asked for.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/run/bound_steps.h"
#include "engine/run/cuda/cuda_streams.h"

namespace snug {

class CudaStaging {
 public:
  // All must outlive it. Everything goes by the first stream.
  static absl::StatusOr<std::unique_ptr<CudaStaging>> Create(const Executable& executable, const ArenaBytes& arenas,
                                                             const CudaStreams& streams);

  std::byte* InputBytes(size_t input) const { return inputs_[input].host; }
  // Null: it is the caller's, and nothing is bound.
  std::byte* OutputBytes(size_t output) const;

  void Feed(size_t input) { inputs_[input].fed = true; }
  absl::Status Fetch(size_t output);  // waits for what was not copied yet

  absl::Status UploadFed();
  absl::Status DownloadSmall();

 private:
  struct Input {
    std::byte* host = nullptr;
    bool fed = false;  // and not copied yet
  };
  struct Output {
    std::byte* host = nullptr;
    bool here = true;
  };

  CudaStaging(const Executable& executable, const ArenaBytes& arenas, const CudaStreams& streams,
              std::unique_ptr<cuda::PinnedBytes> bytes);
  absl::Status Download(size_t output);

  const Executable& executable_;
  const ArenaBytes arenas_;
  const CudaStreams& streams_;
  const std::unique_ptr<cuda::PinnedBytes> bytes_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace snug
