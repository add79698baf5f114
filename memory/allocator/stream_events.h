// What an allocator has to know of a device's streams: whether the work that was pushed up to a moment has run.
#pragma once

#include <cstdint>

namespace snug::memory {

// Called under the allocator's lock; must not call the allocator.
class StreamEvents {
 public:
  using Event = int64_t;

  virtual ~StreamEvents() = default;
  // Behind all that was pushed on the stream so far.
  virtual Event Record(int32_t stream) = 0;
  // Never blocks.
  virtual bool Passed(Event event) = 0;
  // The host waits until it has passed.
  virtual void Wait(Event event) = 0;
  // The event is not asked about again and may be reused.
  virtual void Forget(Event event) = 0;
};

}  // namespace snug::memory
