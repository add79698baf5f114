// A source that counts what was taken from it and keeps to a limit. Idle chunks count too: the limit is on what the
// device loses to us.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>

#include "memory/allocator/memory_source.h"

namespace snug::core::memory {

// Thread-compatible: the allocator that owns it calls it under its lock, so that two requests cannot both pass the
// limit.
class CountedSource {
 public:
  CountedSource(MemorySource* source, int64_t limit_bytes) : source_(source), limit_bytes_(limit_bytes) {}

  absl::StatusOr<std::byte*> Allocate(int64_t bytes);
  void Free(std::byte* address, int64_t bytes);

  // Returns what the device has left within the limit, or -1 when that is unknown.
  int64_t available_bytes() const;

  const MemorySource& source() const { return *source_; }
  int64_t limit_bytes() const { return limit_bytes_; }  // 0 means none
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

}  // namespace snug::core::memory
