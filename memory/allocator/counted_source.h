// A source with a count of what was taken from it and a limit on that. What allocators keep in store counts: the limit
// is on what the device loses to us.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>

#include "memory/allocator/memory_source.h"

namespace snug::memory {

// Thread-compatible: the allocator that owns it calls it under its lock, so that two requests cannot pass the limit
// together.
class CountedSource {
 public:
  CountedSource(MemorySource* source, int64_t limit_bytes) : source_(source), limit_bytes_(limit_bytes) {}

  absl::StatusOr<std::byte*> Allocate(int64_t bytes);
  void Free(std::byte* address, int64_t bytes);

  // What the device has left, within the limit; -1: unknown.
  int64_t available_bytes() const;

  const MemorySource& source() const { return *source_; }
  int64_t limit_bytes() const { return limit_bytes_; }  // 0: none
  int64_t reserved_bytes() const { return reserved_bytes_; }
  int64_t peak_reserved_bytes() const { return peak_reserved_bytes_; }
  int64_t allocations() const { return allocations_; }
  int64_t frees() const { return frees_; }

 private:
  MemorySource* const source_;
  const int64_t limit_bytes_;
  int64_t reserved_bytes_ = 0;
  int64_t peak_reserved_bytes_ = 0;
  int64_t allocations_ = 0;
  int64_t frees_ = 0;
};

}  // namespace snug::memory
