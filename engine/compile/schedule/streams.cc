#include "engine/compile/schedule/streams.h"

#include <algorithm>
#include <map>

#include "engine/base/access_history.h"

namespace snug::core {
namespace {

// Returns what every Step must wait for by the rule of conflicts, on whichever stream.
std::vector<std::vector<int32_t>> DirectPredecessors(const std::vector<std::vector<Access>>& accesses) {
  struct Policy {
    std::vector<int32_t>* found;
    static bool Finished(int32_t /*step*/) { return false; }
    void Wait(int32_t step) const { found->push_back(step); }
  };
  AccessHistory<int32_t> history;
  std::vector<std::vector<int32_t>> predecessors(accesses.size());
  for (size_t step = 0; step < accesses.size(); ++step) {
    Policy policy{&predecessors[step]};
    for (const Access& access : accesses[step]) history.Add(access, static_cast<int32_t>(step), policy);
  }
  return predecessors;
}

}  // namespace

std::vector<int32_t> AssignStreams(const memory::Tasks& tasks, const memory::TaskOrder& order, int streams) {
  const size_t n = order.size();
  std::vector<std::vector<int32_t>> before(n);  // indexed by task
  const auto add = [&](int32_t a, int32_t b) { before[static_cast<size_t>(b)].push_back(a); };
  for (const memory::TaskValue& value : tasks.values) {
    if (value.producer < 0) continue;
    for (const int32_t reader : value.readers) add(value.producer, reader);
  }
  for (const auto& [a, b] : tasks.edges) add(a, b);

  std::vector<double> free_at(static_cast<size_t>(streams), 0), done_at(n, 0);
  std::vector<int32_t> stream_of_task(n, 0), stream_of(n, 0);
  for (size_t position = 0; position < n; ++position) {
    const auto task = static_cast<size_t>(order[position]);
    double ready = 0;
    int32_t last = -1;  // the predecessor that it waits for longest
    for (const int32_t b : before[task]) {
      const double done = done_at[static_cast<size_t>(b)];
      if (last >= 0 && done < ready) continue;
      ready = done;
      last = b;
    }
    size_t best = last < 0 ? 0 : static_cast<size_t>(stream_of_task[static_cast<size_t>(last)]);
    for (size_t s = 0; s < free_at.size(); ++s) {
      if (std::max(free_at[s], ready) < std::max(free_at[best], ready)) best = s;
    }
    const double cost = tasks.cost.empty() ? 1 : tasks.cost[task];
    free_at[best] = done_at[task] = std::max(free_at[best], ready) + cost;
    stream_of_task[task] = stream_of[position] = static_cast<int32_t>(best);
  }
  return stream_of;
}

Schedule ScheduleStreams(const std::vector<std::vector<Access>>& accesses, std::vector<int32_t> stream_of,
                         int streams) {
  const auto k = static_cast<size_t>(streams);
  Schedule schedule{.stream_of = std::move(stream_of), .streams = std::vector<std::vector<int32_t>>(k)};
  if (streams == 1) {
    for (size_t step = 0; step < accesses.size(); ++step) schedule.streams[0].push_back(static_cast<int32_t>(step));
    return schedule;
  }
  // clock[b * k + s] is the last Step of stream s that is surely done before b begins (on b's own stream b itself), or
  // -1.
  std::vector<int32_t> clock(accesses.size() * k, -1);
  const auto clock_of = [&](int32_t step) {
    return clock.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(step) * k);
  };
  const std::vector<std::vector<int32_t>> predecessors = DirectPredecessors(accesses);
  std::vector<int32_t> needed;  // by stream: the last Step that this one conflicts with
  for (size_t i = 0; i < accesses.size(); ++i) {
    const auto step = static_cast<int32_t>(i);
    const auto own = static_cast<size_t>(schedule.stream_of[i]);
    const auto mine = clock_of(step);
    if (!schedule.streams[own].empty()) std::copy_n(clock_of(schedule.streams[own].back()), k, mine);
    needed.assign(k, -1);
    for (const int32_t p : predecessors[i]) {
      int32_t& last = needed[static_cast<size_t>(schedule.stream_of[static_cast<size_t>(p)])];
      last = std::max(last, p);
    }
    for (size_t s = 0; s < k; ++s) {
      if (s == own || needed[s] <= mine[static_cast<std::ptrdiff_t>(s)]) needed[s] = -1;
    }
    for (size_t s = 0; s < k; ++s) {
      if (needed[s] < 0) continue;
      const bool implied = std::any_of(needed.begin(), needed.end(), [&](int32_t other) {
        return other >= 0 && other != needed[s] && clock_of(other)[static_cast<std::ptrdiff_t>(s)] >= needed[s];
      });
      if (!implied) schedule.waits.emplace_back(needed[s], step);
    }
    for (const int32_t other : needed) {
      if (other < 0) continue;
      for (size_t s = 0; s < k; ++s) {
        const auto at = static_cast<std::ptrdiff_t>(s);
        mine[at] = std::max(mine[at], clock_of(other)[at]);
      }
    }
    mine[static_cast<std::ptrdiff_t>(own)] = step;
    schedule.streams[own].push_back(step);
  }
  return schedule;
}

double EstimateSpan(const Schedule& schedule, const std::vector<double>& costs) {
  const size_t n = schedule.stream_of.size();
  std::vector<double> free_at(schedule.streams.size(), 0), done_at(n, 0);
  auto wait = schedule.waits.begin();
  for (size_t step = 0; step < n; ++step) {
    double& now = free_at[static_cast<size_t>(schedule.stream_of[step])];
    for (; wait != schedule.waits.end() && wait->second == static_cast<int32_t>(step); ++wait) {
      now = std::max(now, done_at[static_cast<size_t>(wait->first)]);
    }
    now = done_at[step] = now + costs[step];
  }
  return free_at.empty() ? 0 : *std::max_element(free_at.begin(), free_at.end());
}

}  // namespace snug::core
