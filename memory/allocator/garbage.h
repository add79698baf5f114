// Decides when dead values are freed: at once, in batches, only the large ones, or at the end of the step. It frees
// nothing itself, so that a program and its simulation can ask the same object.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

#include "memory/allocator/options.h"

namespace snug::core::memory {

// One collector serves one device. Thread-compatible. After the first step it allocates nothing as long as the same
// values die.
class GarbageCollector {
 public:
  // `value_bytes` has an entry for each value that could be collected.
  GarbageCollector(const GarbageOptions& options, std::vector<int64_t> value_bytes);

  // Tells whether the value is freed when it dies rather than at the end. That is decided once, for all steps.
  bool Collects(int32_t value) const { return collects_[static_cast<size_t>(value)]; }

  // Tells that the value was read for the last time. Returns what to free now, in this order; valid until the next
  // call.
  absl::Span<const int32_t> Died(int32_t value);
  // Returns all that died and was not freed yet.
  absl::Span<const int32_t> EndStep();

  int64_t dead_bytes() const { return dead_bytes_; }  // dead and collected, but not freed yet

 private:
  absl::Span<const int32_t> FreeNow();

  const std::vector<int64_t> value_bytes_;
  std::vector<bool> collects_;
  int64_t threshold_bytes_;    // -1: nothing is freed before the end of the step
  std::vector<int32_t> dead_;  // dead values that are collected
  std::vector<int32_t> left_;  // dead values that wait for the end of the step
  std::vector<int32_t> free_now_;
  int64_t dead_bytes_ = 0;
};

}  // namespace snug::core::memory
