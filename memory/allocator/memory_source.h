// Where allocators take their memory: malloc or mmap, page-locked memory, cudaMalloc, or a pretended device. The only
// thing that differs between devices; the allocators over it are the same code.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>

#include "memory/allocator/place.h"

namespace snug::memory {

// Thread-safe: several allocators may share one source, as processes share a device.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  virtual Place place() const = 0;
  // Every block starts at a multiple of it.
  virtual int64_t alignment() const = 0;
  // Whether the host may read and write the memory: allocators then may keep their records in it.
  virtual bool host_accessible() const = 0;
  // What could still be taken; -1: unknown.
  virtual int64_t available_bytes() const = 0;

  // bytes > 0. ResourceExhausted, with the system's own words, when it refuses.
  virtual absl::StatusOr<std::byte*> Allocate(int64_t bytes) = 0;
  // What Allocate gave, with the same size. Returns after all work of the device that uses the block.
  virtual void Free(std::byte* address, int64_t bytes) = 0;
};

}  // namespace snug::memory
