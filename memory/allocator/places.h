// One allocator for each place, created when it is first asked for.
//
//   Places places({.allocator = "buddy"});
//   SNUG_ASSIGN_OR_RETURN(void* p, places.Alloc(Place::Cpu(), 4096));
//   SNUG_RETURN_IF_ERROR(places.Free(Place::Cpu(), p));
//
// It knows host memory, ordinary and pinned; a device's backend adds its own kind with Support.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "memory/allocator/allocator.h"
#include "memory/allocator/memory_source.h"
#include "memory/allocator/options.h"
#include "memory/allocator/stream_events.h"

namespace snug::core::memory {

// Thread-safe: mu_ guards the tables; the allocators guard themselves.
class Places {
 public:
  // The parts under the allocator of a place. `events` is null for a place without streams.
  struct Device {
    std::unique_ptr<MemorySource> source;
    std::unique_ptr<StreamEvents> events;
  };
  // Returns NotFound when there is no such device.
  using DeviceFactory = std::function<absl::StatusOr<Device>(const Place&)>;

  explicit Places(const AllocatorOptions& options = {});  // the same options serve every place
  ~Places();                                              // gives all memory back

  // Tells how to make places of this kind. It must come before the first use of one, and replaces what was known.
  void Support(PlaceKind kind, DeviceFactory factory);

  absl::StatusOr<void*> Alloc(const Place& place, int64_t bytes, const BlockOwner& owner = {});
  // Fails with InvalidArgument, and names the right place, when the block lies in another one.
  absl::Status Free(const Place& place, void* address);
  // Returns the bytes in use, as they were asked for. 0 for a place that was never used.
  int64_t Used(const Place& place) const;

  // Gives access to all that Alloc and Free do not offer. The allocator lives as long as this object.
  absl::StatusOr<Allocator*> allocator(const Place& place);

 private:
  struct Entry {
    Device device;
    std::unique_ptr<Allocator> allocator;  // declared after the device, so that it gives its memory back first
  };

  const AllocatorOptions options_;
  mutable std::mutex mu_;
  std::map<PlaceKind, DeviceFactory> factories_;
  std::map<Place, Entry> entries_;
};

}  // namespace snug::core::memory
