#include "memory/order/olla/graph.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

namespace snug::core::memory {

void OllaGraph::BitMatrix::Merge(int32_t into, int32_t from) {
  for (size_t w = 0; w < words_; ++w) bits_[Word(into, 0) + w] |= bits_[Word(from, 0) + w];
}

int32_t OllaGraph::BitMatrix::Count(int32_t row) const {
  int32_t count = 0;
  for (size_t w = 0; w < words_; ++w) count += std::popcount(bits_[Word(row, 0) + w]);
  return count;
}

OllaGraph::OllaGraph(const Tasks& tasks, const std::vector<std::pair<int32_t, int32_t>>& extra)
    : tasks_(&tasks),
      ancestors_(tasks.size()),
      before_(tasks.names.size()),
      earliest_(tasks.names.size()),
      latest_(tasks.names.size()),
      last_readers_(tasks.values.size()) {
  Tasks constrained = {.names = tasks.names, .values = tasks.values, .edges = tasks.edges};
  constrained.edges.insert(constrained.edges.end(), extra.begin(), extra.end());
  ForEachPrecedence(constrained, [&](int32_t from, int32_t to) { before_[static_cast<size_t>(to)].push_back(from); });

  const TaskOrder order = FirstOrder(constrained);
  std::vector<int32_t> position(order.size());
  for (size_t at = 0; at < order.size(); ++at) position[static_cast<size_t>(order[at])] = static_cast<int32_t>(at);
  for (const int32_t task : order) {
    // Looks at the latest predecessor first, so that the ones before it that are its ancestors are known by then and
    // left out.
    std::vector<int32_t>& direct = before_[static_cast<size_t>(task)];
    std::sort(direct.begin(), direct.end(), [&](int32_t a, int32_t b) {
      return position[static_cast<size_t>(a)] > position[static_cast<size_t>(b)];
    });
    std::vector<int32_t> reduced;
    for (const int32_t from : direct) {
      if (ancestors_.Test(task, from)) continue;
      reduced.push_back(from);
      ancestors_.Set(task, from);
      ancestors_.Merge(task, from);
    }
    direct = std::move(reduced);
    earliest_[static_cast<size_t>(task)] = ancestors_.Count(task);
  }
  for (int32_t task = 0; task < size(); ++task) {
    int32_t descendants = 0;
    for (int32_t other = 0; other < size(); ++other) descendants += Precedes(task, other) ? 1 : 0;
    latest_[static_cast<size_t>(task)] = size() - 1 - descendants;
  }
  for (size_t v = 0; v < tasks.values.size(); ++v) {
    const std::vector<int32_t>& readers = tasks.values[v].readers;
    for (const int32_t reader : readers) {
      const bool followed =
          std::any_of(readers.begin(), readers.end(), [&](int32_t other) { return Precedes(reader, other); });
      if (!followed) last_readers_[v].push_back(reader);
    }
  }
}

bool OllaGraph::DiesBefore(size_t a, size_t b) const {
  const TaskValue& first = tasks_->values[a];
  const int32_t writer = tasks_->values[b].producer;
  if (writer < 0 || first.fetched || first.resident) return false;
  if (last_readers_[a].empty()) return first.producer >= 0 && Precedes(first.producer, writer);
  return std::all_of(last_readers_[a].begin(), last_readers_[a].end(),
                     [&](int32_t reader) { return Precedes(reader, writer); });
}

bool OllaGraph::Together(size_t a, size_t b) const {
  const auto needs = [&](int32_t task, const TaskValue& value) {
    return value.producer == task || std::find(value.readers.begin(), value.readers.end(), task) != value.readers.end();
  };
  const TaskValue& one = tasks_->values[a];
  const TaskValue& other = tasks_->values[b];
  if (one.producer >= 0 && needs(one.producer, other)) return true;
  return std::any_of(one.readers.begin(), one.readers.end(), [&](int32_t task) { return needs(task, other); });
}

TaskOrder FirstOrder(const Tasks& tasks) {
  const size_t n = tasks.names.size();
  std::vector<std::vector<int32_t>> followers(n);
  std::vector<int32_t> waiting_for(n, 0);
  ForEachPrecedence(tasks, [&](int32_t before, int32_t after) {
    followers[static_cast<size_t>(before)].push_back(after);
    ++waiting_for[static_cast<size_t>(after)];
  });
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (int32_t task = 0; task < tasks.size(); ++task) {
    if (waiting_for[static_cast<size_t>(task)] == 0) ready.push(task);
  }
  TaskOrder order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int32_t follower : followers[static_cast<size_t>(order.back())]) {
      if (--waiting_for[static_cast<size_t>(follower)] == 0) ready.push(follower);
    }
  }
  return order;
}

std::vector<std::pair<int32_t, int32_t>> IdleTasksFirst(const Tasks& tasks) {
  std::vector<bool> idle(tasks.names.size(), true);
  std::vector<bool> follows(tasks.names.size(), false);
  ForEachPrecedence(tasks, [&](int32_t before, int32_t after) {
    idle[static_cast<size_t>(before)] = idle[static_cast<size_t>(after)] = false;
    follows[static_cast<size_t>(after)] = true;
  });
  for (const TaskValue& value : tasks.values) {
    if (value.resident || value.size_bytes == 0) continue;
    if (value.producer >= 0) idle[static_cast<size_t>(value.producer)] = false;
    for (const int32_t reader : value.readers) idle[static_cast<size_t>(reader)] = false;
  }
  std::vector<std::pair<int32_t, int32_t>> edges;
  int32_t last = -1;
  for (int32_t task = 0; task < tasks.size(); ++task) {
    if (!idle[static_cast<size_t>(task)]) continue;
    if (last >= 0) edges.emplace_back(last, task);
    last = task;
  }
  for (int32_t task = 0; task < tasks.size() && last >= 0; ++task) {
    if (!idle[static_cast<size_t>(task)] && !follows[static_cast<size_t>(task)]) edges.emplace_back(last, task);
  }
  return edges;
}

}  // namespace snug::core::memory
