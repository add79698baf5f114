// Small random instances for the planners' tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>

#include "memory/problem.h"
#include "memory/tasks.h"

namespace snug::core::memory {

// `n` tasks in program order 0, 1, ...; each reads up to three earlier values and writes one; some may be in place.
inline Tasks RandomTasks(std::mt19937& random, int n) {
  Tasks tasks;
  const auto below = [&](int limit) { return static_cast<int32_t>(random() % static_cast<uint32_t>(limit)); };
  for (int32_t t = 0; t < n; ++t) {
    tasks.names.push_back("t" + std::to_string(t));
    tasks.cost.push_back(1 + below(9));
    const int64_t bytes = 64 * (1 + below(12)) + (below(4) == 0 ? below(64) : 0);
    tasks.values.push_back({.name = "v" + std::to_string(t), .size_bytes = bytes, .producer = t});
    for (int reads = t == 0 ? 0 : below(4); reads > 0; --reads) {
      const int32_t input = below(2) == 0 ? below(t) : t - 1 - below(std::min(t, 4));
      std::vector<int32_t>& readers = tasks.values[static_cast<size_t>(input)].readers;
      if (!readers.empty() && readers.back() == t) continue;
      readers.push_back(t);
      if (below(2) == 0) tasks.in_place.push_back({t, input});
    }
  }
  return tasks;
}

inline TaskOrder ProgramOrder(const Tasks& tasks) {
  TaskOrder order(tasks.names.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

inline Problem RandomProblem(std::mt19937& random, int n) {
  const Tasks tasks = RandomTasks(random, n);
  return LifetimesOf(tasks, ProgramOrder(tasks));
}

inline bool LiveAt(const Buffer& buffer, int32_t position) {
  if (position < buffer.first || position > buffer.last) return false;
  return std::none_of(buffer.gaps.begin(), buffer.gaps.end(),
                      [&](const Span& gap) { return gap.first <= position && position <= gap.last; });
}

// The most bytes live at once: no plan without in-place pairs has less.
inline int64_t MaxLoad(const Problem& problem) {
  int64_t max = 0;
  for (const Buffer& at : problem.buffers) {
    int64_t load = 0;
    for (const Buffer& b : problem.buffers) load += LiveAt(b, at.first) ? b.size_bytes : 0;
    max = std::max(max, load);
  }
  return max;
}

}  // namespace snug::core::memory
