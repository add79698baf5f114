// Sources of host memory.
#pragma once

#include "memory/allocator/memory_source.h"

namespace snug::core::memory {

// Takes small blocks from the C library, and large ones from the system page by page, so that freed memory really goes
// back.
class HostSource final : public MemorySource {
 public:
  explicit HostSource(int64_t alignment = 64);  // a power of two, at most 4096

  Place place() const override { return Place::Cpu(); }
  int64_t alignment() const override { return alignment_; }
  bool host_accessible() const override { return true; }
  int64_t available_bytes() const override;
  absl::StatusOr<std::byte*> Allocate(int64_t bytes) override;
  void Free(std::byte* address, int64_t bytes) override;

 private:
  const int64_t alignment_;
};

// Host memory that is locked in RAM. A CUDA device copies from it directly only once the driver knows of it, so a
// backend that registers memory with its driver brings its own source.
class PinnedSource final : public MemorySource {
 public:
  Place place() const override { return Place::Pinned(); }
  int64_t alignment() const override { return 4096; }  // pages are locked, not bytes
  bool host_accessible() const override { return true; }
  // Returns the smaller of what the machine has and what this process may still lock.
  int64_t available_bytes() const override;
  absl::StatusOr<std::byte*> Allocate(int64_t bytes) override;
  void Free(std::byte* address, int64_t bytes) override;
};

}  // namespace snug::core::memory
