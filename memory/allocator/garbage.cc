#include "memory/allocator/garbage.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace snug::core::memory {
namespace {

std::vector<bool> LargestOf(const std::vector<int64_t>& bytes, double fraction) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&bytes](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  const auto total = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
  std::vector<bool> chosen(bytes.size(), fraction >= 1);
  int64_t sum = 0;
  for (const size_t value : order) {
    if (static_cast<double>(sum) >= fraction * total) break;
    chosen[value] = true;
    sum += bytes[value];
  }
  return chosen;
}

}  // namespace

GarbageCollector::GarbageCollector(const GarbageOptions& options, std::vector<int64_t> value_bytes)
    : value_bytes_(std::move(value_bytes)),
      collects_(LargestOf(value_bytes_, options.gc_fraction)),
      threshold_bytes_(options.gc_threshold_gb < 0 ? -1 : std::llround(options.gc_threshold_gb * 1e9)) {}

absl::Span<const int32_t> GarbageCollector::Died(int32_t value) {
  if (threshold_bytes_ < 0 || !Collects(value)) {
    left_.push_back(value);
    return {};
  }
  dead_.push_back(value);
  dead_bytes_ += value_bytes_[static_cast<size_t>(value)];
  return dead_bytes_ < threshold_bytes_ ? absl::Span<const int32_t>() : FreeNow();
}

absl::Span<const int32_t> GarbageCollector::EndStep() {
  dead_.insert(dead_.end(), left_.begin(), left_.end());
  left_.clear();
  return FreeNow();
}

absl::Span<const int32_t> GarbageCollector::FreeNow() {
  free_now_.clear();
  std::swap(free_now_, dead_);
  dead_bytes_ = 0;
  return free_now_;
}

}  // namespace snug::core::memory
