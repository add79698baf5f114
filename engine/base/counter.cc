#include "engine/base/counter.h"

#include "engine/base/pause.h"

namespace snug::core {

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
