// A simulated device: it hands out addresses with no memory behind them, up to a size. Allocators run over it as over a
// real device, which is how their peak is known before anything is allocated (simulate.h). It uses no address twice and
// is never fragmented; a real device can be worse.
#pragma once

#include <cstdint>
#include <mutex>

#include "memory/allocator/memory_source.h"

namespace snug::core::memory {

class VirtualSource final : public MemorySource {
 public:
  VirtualSource(Place place, int64_t size_bytes, int64_t alignment);  // -1: unlimited

  Place place() const override { return place_; }
  int64_t alignment() const override { return alignment_; }
  bool host_accessible() const override { return false; }
  int64_t available_bytes() const override;
  absl::StatusOr<std::byte*> Allocate(int64_t bytes) override;
  void Free(std::byte* address, int64_t bytes) override;

 private:
  const Place place_;
  const int64_t size_bytes_;
  const int64_t alignment_;
  mutable std::mutex mu_;  // guards all members below
  int64_t taken_bytes_ = 0;
  int64_t next_address_ = int64_t{1} << 40;
};

}  // namespace snug::core::memory
