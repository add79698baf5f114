// When dead values are freed: at once, in batches, only the large ones, or at the end of the step. A policy and nothing
// else: it says which values to free now, so that a program and its simulation ask the same object.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

#include "memory/allocator/options.h"

namespace snug::memory {

// Of one device. Thread-compatible. After the first step with the same deaths it allocates nothing.
class GarbageCollector {
 public:
  // One entry for each value that could be collected.
  GarbageCollector(const GarbageOptions& options, std::vector<int64_t> value_bytes);

  // Whether the value is among those that are freed as they die: decided here once, for all steps.
  bool Collects(int32_t value) const { return collects_[static_cast<size_t>(value)]; }

  // The value was read for the last time. What to free now, in this order; valid until the next call.
  absl::Span<const int32_t> Died(int32_t value);
  // All that died and was not freed yet.
  absl::Span<const int32_t> EndStep();

  int64_t dead_bytes() const { return dead_bytes_; }  // of values that are collected and not freed yet

 private:
  absl::Span<const int32_t> FreeNow();

  const std::vector<int64_t> value_bytes_;
  std::vector<bool> collects_;
  int64_t threshold_bytes_;    // -1: nothing is freed before the end
  std::vector<int32_t> dead_;  // collected
  std::vector<int32_t> left_;  // for the end of the step
  std::vector<int32_t> free_now_;
  int64_t dead_bytes_ = 0;
};

}  // namespace snug::memory
