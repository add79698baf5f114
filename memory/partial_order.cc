#include "memory/partial_order.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>
#include <queue>

namespace snug::core::memory {

std::vector<Edge> PrecedenceOf(const Tasks& tasks) {
  std::vector<Edge> edges = tasks.edges;
  for (const TaskValue& value : tasks.values) {
    if (value.producer < 0 || value.resident) continue;
    for (const int32_t reader : value.readers) edges.emplace_back(value.producer, reader);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

std::vector<int32_t> FindCycle(int32_t tasks, const std::vector<Edge>& edges) {
  const auto n = static_cast<size_t>(tasks);
  std::vector<std::vector<int32_t>> after(n);
  std::vector<size_t> waiting_for(n, 0);
  for (const auto& [a, b] : edges) {
    after[static_cast<size_t>(a)].push_back(b);
    ++waiting_for[static_cast<size_t>(b)];
  }
  std::vector<size_t> ready;
  for (size_t t = 0; t < n; ++t) {
    if (waiting_for[t] == 0) ready.push_back(t);
  }
  for (size_t done = 0; done < ready.size(); ++done) {
    for (const int32_t next : after[ready[done]]) {
      if (--waiting_for[static_cast<size_t>(next)] == 0) ready.push_back(static_cast<size_t>(next));
    }
  }
  // Each task that is left waits for another one that is left, so walking back from any of them ends in a cycle.
  std::vector<int32_t> waits_for(n, -1);
  int32_t at = -1;
  for (const auto& [a, b] : edges) {
    if (waiting_for[static_cast<size_t>(a)] == 0 || waiting_for[static_cast<size_t>(b)] == 0) continue;
    waits_for[static_cast<size_t>(b)] = a;
    at = b;
  }
  if (at < 0) return {};
  for (size_t steps = 0; steps < n; ++steps) at = waits_for[static_cast<size_t>(at)];
  std::vector<int32_t> cycle = {at};
  for (int32_t t = waits_for[static_cast<size_t>(at)]; t != at; t = waits_for[static_cast<size_t>(t)])
    cycle.push_back(t);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

absl::StatusOr<PartialOrder> PartialOrder::Create(int32_t tasks, const std::vector<Edge>& edges) {
  const auto n = static_cast<size_t>(tasks);
  std::vector<std::vector<int32_t>> before(n);
  std::vector<std::vector<int32_t>> after(n);
  std::vector<size_t> waiting_for(n, 0);
  for (const auto& [a, b] : edges) {
    if (a < 0 || b < 0 || a >= tasks || b >= tasks) {
      return absl::InvalidArgumentError(absl::StrCat("edge ", a, " -> ", b, ": expected tasks below ", tasks));
    }
    before[static_cast<size_t>(b)].push_back(a);
    after[static_cast<size_t>(a)].push_back(b);
    ++waiting_for[static_cast<size_t>(b)];
  }
  PartialOrder order;
  order.place_.resize(n);
  order.clock_.resize(n);
  order.sequence_.reserve(n);
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (int32_t t = 0; t < tasks; ++t) {
    if (waiting_for[static_cast<size_t>(t)] == 0) ready.push(t);
  }
  std::vector<bool> extended(n, false);  // whether another task follows it in its chain
  std::vector<ChainPosition> merged;
  while (!ready.empty()) {
    const auto task = static_cast<size_t>(ready.top());
    ready.pop();
    order.sequence_.push_back(static_cast<int32_t>(task));
    std::vector<ChainPosition>& clock = order.clock_[task];
    int32_t link = -1;  // the task that this one follows in its chain; if several can be, the one of the largest number
    for (const int32_t previous : before[task]) {
      const auto p = static_cast<size_t>(previous);
      const std::vector<ChainPosition>& other = order.clock_[p];
      merged.clear();
      auto mine = clock.begin();
      auto theirs = other.begin();
      while (mine != clock.end() || theirs != other.end()) {
        const bool take_mine = theirs == other.end() || (mine != clock.end() && mine->chain < theirs->chain);
        const bool take_theirs = mine == clock.end() || (theirs != other.end() && theirs->chain < mine->chain);
        if (take_mine) {
          merged.push_back(*mine++);
        } else if (take_theirs) {
          merged.push_back(*theirs++);
        } else {
          merged.push_back(mine->position < theirs->position ? *theirs : *mine);
          ++mine;
          ++theirs;
        }
      }
      clock.swap(merged);
      if (!extended[p] && (link < 0 || previous > link)) link = previous;
    }
    ChainPosition& place = order.place_[task];
    if (link >= 0) {
      const ChainPosition& at = order.place_[static_cast<size_t>(link)];
      extended[static_cast<size_t>(link)] = true;
      place = {at.chain, at.position + 1};
      std::find_if(clock.begin(), clock.end(), [&](const ChainPosition& p) { return p.chain == at.chain; })->position =
          place.position;
    } else {
      place = {order.chains_++, 0};
      clock.push_back(place);  // keeps the clock sorted, because a new chain has the largest number
    }
    for (const int32_t next : after[task]) {
      if (--waiting_for[static_cast<size_t>(next)] == 0) ready.push(next);
    }
  }
  if (order.sequence_.size() < n) {
    return absl::InvalidArgumentError(absl::StrCat("the edges form a cycle: ", n - order.sequence_.size(), " of ", n,
                                                   " tasks lie on one or behind it"));
  }
  return order;
}

bool PartialOrder::Before(int32_t a, int32_t b) const {
  if (a == b) return false;
  const ChainPosition& place = place_[static_cast<size_t>(a)];
  const std::vector<ChainPosition>& clock = clock_[static_cast<size_t>(b)];
  const auto at = std::lower_bound(clock.begin(), clock.end(), place.chain,
                                   [](const ChainPosition& p, int32_t chain) { return p.chain < chain; });
  return at != clock.end() && at->chain == place.chain && at->position >= place.position;
}

}  // namespace snug::core::memory
