#include "engine/run/executors/executor.h"

#include <chrono>

namespace snug::core {

int64_t MonotonicNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace snug::core
