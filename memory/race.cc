#include "memory/race.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace snug::core::memory {

int Race(int threads, int count, const std::function<bool(int index, const std::function<bool()>& stop)>& attempt) {
  std::atomic<int> next{0};
  std::atomic<int> winner{count};
  const auto run = [&] {
    for (;;) {
      const int index = next.fetch_add(1);
      if (index >= winner.load()) return;
      if (!attempt(index, [&winner, index] { return winner.load(std::memory_order_relaxed) < index; })) continue;
      int best = winner.load();
      while (index < best && !winner.compare_exchange_weak(best, index)) {
      }
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < std::min(threads, count); ++t) others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
  return winner.load();
}

void RunAll(int threads, int count, const std::function<void(int index)>& task) {
  const int crew = std::max(std::min(threads, count), 1);
  const auto run = [&](int first) {
    for (int index = first; index < count; index += crew) task(index);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < crew; ++t) others.emplace_back(run, t);
  run(0);
  for (std::thread& other : others) other.join();
}

}  // namespace snug::core::memory
