// A point that one thread reaches and others wait for. A waiter spins for some microseconds, which is what a hand-over
// between two running threads takes, and then sleeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace snug::core {

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

}  // namespace snug::core
