// Takes small blocks from the C library, and large ones from the system page by page, so that freed memory really goes
// back.
#pragma once

#include "memory/allocator/memory_source.h"

namespace snug::core::memory {

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

}  // namespace snug::core::memory
