// A count that one thread raises and others wait for. A waiter spins for some microseconds, which is what a hand-over
// between two running threads takes, and then sleeps. Counts stay below 2^31.
#pragma once

#include <atomic>
#include <cstdint>

namespace snug::core {

class Counter {
 public:
  Counter() = default;
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  uint32_t value() const { return state_.load(std::memory_order_acquire) >> 1; }
  // Whoever sees the count this high also sees everything that the caller did before.
  void Raise(uint32_t to) {
    if ((state_.exchange(to << 1, std::memory_order_acq_rel) & kSleepers) != 0) state_.notify_all();
  }
  void WaitFor(uint32_t at_least) {
    if (value() < at_least) WaitLong(at_least);
  }
  // Must not be called while somebody waits.
  void Reset() { state_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kSleepers = 1;  // the lowest bit; the other bits are the count
  void WaitLong(uint32_t at_least);

  std::atomic<uint32_t> state_{0};
};

}  // namespace snug::core
