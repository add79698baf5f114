#include "tests/memory/order_random_tasks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace snug::core::memory {

Tasks RandomOrderingTasks(std::mt19937& random, int max_tasks) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  const int n = 1 + below(max_tasks);
  std::vector<int32_t> rank(static_cast<size_t>(n));  // a hidden legal order
  std::iota(rank.begin(), rank.end(), 0);
  std::shuffle(rank.begin(), rank.end(), random);
  Tasks tasks;
  for (int t = 0; t < n; ++t) tasks.names.push_back(absl::StrCat("t", t));
  const int max_size = below(2) == 0 ? 4 : 100;
  const int reach = 1 + below(n);  // how far readers lie from the producer: chains or thickets
  const int values = n + below(n + 1);
  for (int v = 0; v < values; ++v) {
    TaskValue value{.name = absl::StrCat("v", v), .size_bytes = below(max_size), .alignment = 1};
    const int at = below(n + 1) - 1;
    value.producer = at < 0 ? -1 : rank[static_cast<size_t>(at)];
    for (int r = below(4); r > 0; --r) {
      const int reader = at + 1 + below(reach);
      if (reader < n) value.readers.push_back(rank[static_cast<size_t>(reader)]);
    }
    std::sort(value.readers.begin(), value.readers.end());
    value.readers.erase(std::unique(value.readers.begin(), value.readers.end()), value.readers.end());
    value.resident = below(12) == 0;
    value.fetched = below(12) == 0;
    if (value.producer == -1 && value.readers.empty()) value.fetched = true;
    tasks.values.push_back(value);
  }
  for (int e = below(n); e > 0; --e) {
    const int from = below(n);
    const int to = from + 1 + below(reach);
    if (to < n) tasks.edges.emplace_back(rank[static_cast<size_t>(from)], rank[static_cast<size_t>(to)]);
  }
  return tasks;
}

int64_t LeastPeak(const Tasks& tasks) {
  const auto n = static_cast<size_t>(tasks.size());
  std::vector<uint32_t> needs(n, 0);
  int64_t resident = 0;
  for (const TaskValue& value : tasks.values) {
    if (value.resident) {
      resident += value.size_bytes;
    } else if (value.producer >= 0) {
      for (const int32_t reader : value.readers) needs[static_cast<size_t>(reader)] |= 1u << value.producer;
    }
  }
  for (const auto& [before, after] : tasks.edges) needs[static_cast<size_t>(after)] |= 1u << before;
  // Bytes while `task` runs after the tasks of `done`.
  const auto bytes_at = [&](uint32_t done, size_t task) {
    int64_t bytes = resident;
    for (const TaskValue& value : tasks.values) {
      if (value.resident) continue;
      const bool written = value.producer < 0 || (done >> value.producer & 1) != 0;
      bool needed = value.fetched;
      for (const int32_t reader : value.readers) needed = needed || (done >> reader & 1) == 0;
      if ((written && needed) || value.producer == static_cast<int32_t>(task)) bytes += value.size_bytes;
    }
    return bytes;
  };
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> least(size_t{1} << n, kNever);  // peak of the best way to run a set
  least[0] = 0;
  for (uint32_t done = 0; done + 1 < least.size(); ++done) {
    if (least[done] == kNever) continue;
    for (size_t task = 0; task < n; ++task) {
      if ((done >> task & 1) != 0 || (needs[task] & ~done) != 0) continue;
      int64_t& next = least[done | 1u << task];
      if (least[done] < next) next = std::min(next, std::max(least[done], bytes_at(done, task)));
    }
  }
  return least.back();
}

}  // namespace snug::core::memory
