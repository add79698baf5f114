// Memory by place: one allocator for each, made as it is first asked for.
//
//   Places places({.allocator = "buddy"});
//   SNUG_ASSIGN_OR_RETURN(void* p, places.Alloc(Place::Cpu(), 4096));
//   SNUG_RETURN_IF_ERROR(places.Free(Place::Cpu(), p));
//
// Knows host memory, ordinary and pinned; a device's backend adds its own kind with Support.
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
#include "memory/allocator/place.h"
#include "memory/allocator/stream_events.h"

namespace snug::memory {

// Thread-safe: mu_ guards the tables; the allocators guard themselves.
class Places {
 public:
  // What a place's allocator stands on. `events` null: a place without streams.
  struct Device {
    std::unique_ptr<MemorySource> source;
    std::unique_ptr<StreamEvents> events;
  };
  // NotFound when there is no such device.
  using DeviceFactory = std::function<absl::StatusOr<Device>(const Place&)>;

  explicit Places(const AllocatorOptions& options = {});  // for every place
  ~Places();                                              // gives all memory back

  // Before the first use of a place of this kind; replaces what was known of it.
  void Support(PlaceKind kind, DeviceFactory factory);

  absl::StatusOr<void*> Alloc(const Place& place, int64_t bytes, const BlockOwner& owner = {});
  // InvalidArgument, naming the right place, for a block of another one.
  absl::Status Free(const Place& place, void* address);
  // Bytes in use, as they were asked for. 0 for a place that was never used.
  int64_t Used(const Place& place) const;

  // For all that goes beyond. Lives as long as this object.
  absl::StatusOr<Allocator*> allocator(const Place& place);

 private:
  struct Entry {
    Device device;
    std::unique_ptr<Allocator> allocator;  // after the device: it gives its memory back first
  };

  const AllocatorOptions options_;
  mutable std::mutex mu_;
  std::map<PlaceKind, DeviceFactory> factories_;
  std::map<Place, Entry> entries_;
};

}  // namespace snug::memory
