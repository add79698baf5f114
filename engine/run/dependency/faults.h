// Knows what went wrong in an engine: which regions are poisoned by which error, and the first error that was not
// reported yet. Thread-safe. As long as nothing fails, a task only costs one load of a flag. The flag needs no lock,
// because by the dependency rule whoever must see an error runs after the task that recorded it.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "engine/base/conflict.h"
#include "engine/base/interval_map.h"

namespace snug::core {

class Faults {
 public:
  struct Fault {
    int64_t sequence = 0;  // the task that failed
    absl::Status status;
  };

  bool any() const { return any_.load(std::memory_order_acquire); }

  // Returns the earliest fault on one of the regions; otherwise Cancelled while cancelling, if that is asked for;
  // otherwise OK.
  enum Kinds { kPoison, kPoisonOrStop };
  Fault Find(absl::Span<const Region> reads, absl::Span<const Region> writes, Kinds kinds) const;
  // Records that task `sequence` did not do its work because of `fault`.
  void Record(int64_t sequence, const Fault& fault, absl::Span<const Region> writes);
  void Clear(const Region& region);
  void ClearAll();
  // Returns the fault of the earliest task that was recorded since the last call.
  absl::Status TakeFirst();
  void SetCancelling(bool cancelling);

 private:
  void UpdateAny() { any_.store(cancelling_ || !poisoned_.empty(), std::memory_order_release); }

  std::atomic<bool> any_{false};
  mutable std::mutex mu_;  // guards all members below
  bool cancelling_ = false;
  std::map<int32_t, IntervalMap<Fault>> poisoned_;  // by arena; none of the maps is empty
  Fault first_;                                     // its sequence is that of the task that it kept from running
};

}  // namespace snug::core
