// A program that was killed a moment ago holds its locks until the system is through with it, which takes a while where
// it had much memory.
#pragma once

#include <chrono>
#include <thread>

namespace snug::core {

// Calls it again and again for some seconds, and says whether it succeeded.
template <class Fn>
bool WithPatience(const Fn& succeeds) {
  constexpr std::chrono::milliseconds kPatience(3000), kBetween(20);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!succeeds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kBetween);
  }
  return true;
}

}  // namespace snug::core
