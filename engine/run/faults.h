// What went wrong in an engine: which regions are poisoned by which error, and the first error nobody was told of yet.
// Thread-safe. As long as nothing fails, a task costs one load of a flag; the flag needs no lock because whoever must
// see an error comes, by the dependency rule, after the task that recorded it.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "engine/base/conflict.h"
#include "engine/base/interval_map.h"

namespace snug {

class Faults {
 public:
  struct Fault {
    int64_t sequence = 0;  // of the task that failed
    absl::Status status;
  };

  bool any() const { return any_.load(std::memory_order_acquire); }

  // The earliest fault that lies on one of the regions; else Cancelled while cancelling, if asked for; else OK.
  enum Kinds { kPoison, kPoisonOrStop };
  Fault Find(absl::Span<const Region> reads, absl::Span<const Region> writes, Kinds kinds) const;
  // Task `sequence` did not do what it should, because of `fault`.
  void Record(int64_t sequence, const Fault& fault, absl::Span<const Region> writes);
  void Clear(const Region& region);
  void ClearAll();
  // The fault of the earliest task that was recorded since the last call.
  absl::Status TakeFirst();
  void SetCancelling(bool cancelling);

 private:
  void UpdateAny() { any_.store(cancelling_ || !poisoned_.empty(), std::memory_order_release); }

  std::atomic<bool> any_{false};
  mutable std::mutex mu_;  // guards what follows
  bool cancelling_ = false;
  std::map<int32_t, IntervalMap<Fault>> poisoned_;  // by arena; no empty ones
  Fault first_;                                     // its sequence is that of the task it kept from running
};

}  // namespace snug
