// Allocators take their memory from a source: malloc or mmap, page-locked memory, cudaMalloc, or a simulated device.
// Devices differ only in their source; the allocators over it are the same code.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>

#include "memory/allocator/place.h"

namespace snug::core::memory {

// Thread-safe: several allocators may share one source, as processes share a device.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  virtual Place place() const = 0;
  // Every block starts at a multiple of this.
  virtual int64_t alignment() const = 0;
  // Tells whether the host may read and write the memory; if so, allocators may keep their records in it.
  virtual bool host_accessible() const = 0;
  // Returns what could still be taken, or -1 when that is unknown.
  virtual int64_t available_bytes() const = 0;

  // `bytes` must be positive. Fails with ResourceExhausted and the system's own words when the system refuses.
  virtual absl::StatusOr<std::byte*> Allocate(int64_t bytes) = 0;
  // Takes an address that Allocate returned, and its size. Returns once no work on the device uses the block.
  virtual void Free(std::byte* address, int64_t bytes) = 0;
};

}  // namespace snug::core::memory
