#include "memory/place/race.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace snug::memory {

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

}  // namespace snug::memory
