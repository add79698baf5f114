// What one thread does and others wait for: a point that it reaches, or a count that it raises. A waiter spins for some
// microseconds, which is what a hand-over between two running threads takes, and then sleeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace snug::core {

// Tells the core, in each turn of a spinning loop, that it waits for another core.
inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A point that one thread reaches and others wait for.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Whoever returns from Wait() or sees passed() also sees everything that the caller did before. The Event is not
  // touched after a waiter could have seen the signal, so that the waiter may destroy it.
  void Signal();
  bool passed() const { return state_.load(std::memory_order_acquire) == kPassed; }
  void Wait();

 private:
  static constexpr uint32_t kOpen = 0, kSleeping = 1, kPassed = 2;
  std::atomic<uint32_t> state_{kOpen};
};

// A count that one thread raises and others wait for. It stays below 2^31.
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
