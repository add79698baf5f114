// Tells an allocator about a device's streams: whether the work that was pushed up to a moment has run.
#pragma once

#include <cstdint>

namespace snug::core::memory {

// It is called under the allocator's lock, so it must not call the allocator.
class StreamEvents {
 public:
  using Event = int64_t;

  virtual ~StreamEvents() = default;
  // Returns an event that passes once all that was pushed on the stream so far has run.
  virtual Event Record(int32_t stream) = 0;
  // Tells whether it has passed. Never blocks.
  virtual bool Passed(Event event) = 0;
  // Blocks the host until it has passed.
  virtual void Wait(Event event) = 0;
  // Lets the event be used again: nobody asks about it any more.
  virtual void Forget(Event event) = 0;
};

}  // namespace snug::core::memory
