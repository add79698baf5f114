#include "engine/base/event.h"

namespace snug::core {

void Event::Signal() {
  // The waiter may have destroyed the Event by now. That is safe: waking sleepers uses only its address, never its
  // bytes.
  if (state_.exchange(kPassed, std::memory_order_acq_rel) == kSleeping) state_.notify_all();
}

void Event::Wait() {
  constexpr int polls = 500;
  for (int i = 0; i < polls; ++i) {
    if (passed()) return;
    Pause();
  }
  uint32_t open = kOpen;
  state_.compare_exchange_strong(open, kSleeping, std::memory_order_acq_rel, std::memory_order_acquire);
  while (!passed()) state_.wait(kSleeping, std::memory_order_acquire);
}

void Counter::WaitLong(uint32_t at_least) {
  constexpr int kPolls = 2000;
  for (int i = 0; i < kPolls; ++i) {
    Pause();
    if (value() >= at_least) return;
  }
  while (true) {
    uint32_t seen = state_.load(std::memory_order_acquire);
    if ((seen >> 1) >= at_least) return;
    if ((seen & kSleepers) == 0 &&
        !state_.compare_exchange_weak(seen, seen | kSleepers, std::memory_order_acq_rel, std::memory_order_acquire)) {
      continue;
    }
    state_.wait(seen | kSleepers, std::memory_order_acquire);
  }
}

}  // namespace snug::core
