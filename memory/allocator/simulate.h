// Finds out beforehand what an allocator will do: the real allocator runs a program's allocations and frees over a
// simulated device. No memory is touched. The peak is the one that the same sequence gives on a device whose own memory
// is never fragmented.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <mutex>

#include "memory/allocator/memory_source.h"
#include "memory/allocator/options.h"
#include "memory/allocator/statistics.h"

namespace snug::core::memory {

// A simulated device: it hands out addresses with no memory behind them, up to a size. Allocators run over it as over a
// real device, which is how their peak is known before anything is allocated. It uses no address twice and
// is never fragmented; a real device can be worse.
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

struct AllocatorEvent {
  enum class Action { kAllocate, kFree };
  Action action = Action::kAllocate;
  int32_t block = 0;  // the program's number for it, from 0; may be used again once it is freed
  int64_t bytes = 0;  // only for allocations
  int32_t stream = 0;
  absl::string_view name;  // named in the report of an out-of-memory, as in BlockOwner
  absl::string_view held_as;
};

struct SimulatedDevice {
  Place place;
  int64_t free_bytes = -1;  // before the first event; -1: unlimited
};

// Fails with ResourceExhausted, and the report that the program would get, where the program would run out of memory.
absl::StatusOr<AllocatorStatistics> Simulate(absl::Span<const AllocatorEvent> events, const AllocatorOptions& options,
                                             const SimulatedDevice& device);

}  // namespace snug::core::memory
