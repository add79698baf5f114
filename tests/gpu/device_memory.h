// The host's bytes on a device while an op's kernel is tested there: copied over before, and back afterwards.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>

#include "engine/cuda/cuda_stream.h"

namespace snug::core::test {

class DeviceMemory {
 public:
  // Everything lies `shift` bytes after a multiple of 256.
  explicit DeviceMemory(cuda::CudaStream& stream, int64_t shift = 0) : stream_(stream), shift_(shift) {}
  ~DeviceMemory() { FreeAll(); }

  // Where `bytes` of the host's are on the device: the same for the same address.
  absl::StatusOr<void*> Place(void* host, int64_t bytes) {
    if (bytes == 0) return host;
    const auto [block, is_new] = blocks_.try_emplace(static_cast<std::byte*>(host), Block{});
    if (is_new) {
      absl::StatusOr<std::byte*> taken = stream_.device().Allocate(bytes + shift_);
      if (!taken.ok()) {
        blocks_.erase(block);
        return taken.status();
      }
      block->second = {*taken + shift_, bytes};
      const absl::Status copied = stream_.Upload(block->second.device, block->first, bytes);
      if (!copied.ok()) return copied;
    }
    return block->second.device;
  }

  // Once everything asked for is done; nothing is on the device then.
  absl::Status Return() {
    absl::Status status;
    for (const auto& [host, block] : blocks_) status.Update(stream_.Download(host, block.device, block.bytes));
    status.Update(stream_.Synchronize());
    FreeAll();
    return status;
  }

 private:
  struct Block {
    std::byte* device = nullptr;
    int64_t bytes = 0;
  };
  void FreeAll() {
    for (const auto& [host, block] : blocks_) stream_.device().Free(block.device - shift_);
    blocks_.clear();
  }

  cuda::CudaStream& stream_;
  const int64_t shift_;
  std::map<std::byte*, Block> blocks_;  // by where they are on the host
};

}  // namespace snug::core::test
