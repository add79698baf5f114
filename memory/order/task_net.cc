#include "memory/order/task_net.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

namespace snug::core::memory {
namespace {

using TaskPairs = std::vector<std::pair<int32_t, int32_t>>;

constexpr size_t kSiblings = 64;  // an edge is compared with at most so many others from the same task

// Returns `edges` (sorted, each once) without those that are known to follow from a longer path.
TaskPairs TransitiveReduction(const TaskPairs& edges, const Lists& after, const TaskOrder& order) {
  const Reachability reach(after, order);
  TaskPairs kept;
  for (const auto& [from, to] : edges) {
    const auto others = after[from].subspan(0, kSiblings);
    const auto implied = [&, to = to](int32_t other) { return other != to && reach.SurelyFollows(to, other); };
    if (std::none_of(others.begin(), others.end(), implied)) kept.emplace_back(from, to);
  }
  return kept;
}

TaskOrder FirstReady(int32_t n, const Lists& after) {
  std::vector<int32_t> waiting_for(static_cast<size_t>(n), 0);
  for (int32_t t = 0; t < n; ++t) {
    for (const int32_t follower : after[t]) ++waiting_for[static_cast<size_t>(follower)];
  }
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (int32_t t = 0; t < n; ++t) {
    if (waiting_for[static_cast<size_t>(t)] == 0) ready.push(t);
  }
  TaskOrder order;
  while (!ready.empty()) {
    const int32_t task = ready.top();
    ready.pop();
    order.push_back(task);
    for (const int32_t follower : after[task]) {
      if (--waiting_for[static_cast<size_t>(follower)] == 0) ready.push(follower);
    }
  }
  return order;
}

uint64_t HashOf(int32_t producer, const std::vector<int32_t>& readers) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;
  uint64_t hash = (static_cast<uint64_t>(producer) + 2) * kMix;  // tasks and their readers are neighbours as numbers
  for (const int32_t reader : readers) hash = (hash ^ (hash >> 32) ^ static_cast<uint64_t>(reader)) * kMix;
  return hash;
}

}  // namespace

Lists::Lists(int32_t n, absl::Span<const std::pair<int32_t, int32_t>> pairs) : begin_(static_cast<size_t>(n) + 1, 0) {
  for (const auto& [list, item] : pairs) ++begin_[static_cast<size_t>(list) + 1];
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  items_.resize(pairs.size());
  std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
  for (const auto& [list, item] : pairs) items_[next[static_cast<size_t>(list)]++] = item;
}

TaskNet::TaskNet(const Tasks& tasks) : size(tasks.size()), write_bytes(tasks.names.size(), 0) {
  TaskPairs edges = tasks.edges;
  std::vector<NetValue> all;
  std::vector<std::vector<int32_t>> read_by;
  for (const TaskValue& value : tasks.values) {
    if (value.resident) {
      resident_bytes += value.size_bytes;
      continue;
    }
    if (value.producer >= 0) {
      for (const int32_t reader : value.readers) edges.emplace_back(value.producer, reader);
      write_bytes[static_cast<size_t>(value.producer)] += value.size_bytes;
    }
    all.push_back({value.size_bytes, value.producer, value.fetched});
    read_by.push_back(value.readers);
  }
  SetValues(all, std::move(read_by));
  SetEdges(std::move(edges));
}

void TaskNet::SetValues(const std::vector<NetValue>& all, std::vector<std::vector<int32_t>> read_by) {
  // Values of the same producer and readers are one. Those found are known by a hash of these: its newest value, and
  // for each value an older one of that hash, or -1.
  std::unordered_map<uint64_t, int32_t> newest;
  std::vector<int32_t> older;
  std::vector<size_t> number_of;  // of each value, in `all`
  TaskPairs reads, reads_of_task, produced;
  for (size_t i = 0; i < all.size(); ++i) {
    const NetValue& value = all[i];
    std::vector<int32_t>& its_readers = read_by[i];
    if (value.fetched) its_readers.clear();  // it lives to the end, whoever reads it
    if (value.bytes == 0 || (its_readers.empty() && !value.fetched))
      continue;  // it only counts in write_bytes of its
                 // producer
    std::sort(its_readers.begin(), its_readers.end());
    its_readers.erase(std::unique(its_readers.begin(), its_readers.end()), its_readers.end());
    if (value.producer < 0) start_bytes += value.bytes;
    const auto id = static_cast<int32_t>(values.size());
    int32_t& newest_alike = newest.try_emplace(HashOf(value.producer, its_readers), -1).first->second;
    int32_t same = newest_alike;
    while (same >= 0 && (values[static_cast<size_t>(same)].producer != value.producer ||
                         read_by[number_of[static_cast<size_t>(same)]] != its_readers)) {
      same = older[static_cast<size_t>(same)];
    }
    if (same >= 0) {
      values[static_cast<size_t>(same)].bytes += value.bytes;
      continue;
    }
    older.push_back(std::exchange(newest_alike, id));
    number_of.push_back(i);
    values.push_back(value);
    if (value.producer >= 0) produced.emplace_back(value.producer, id);
    for (const int32_t reader : its_readers) {
      reads.emplace_back(id, reader);
      reads_of_task.emplace_back(reader, id);
    }
  }
  readers = Lists(static_cast<int32_t>(values.size()), reads);
  inputs = Lists(size, reads_of_task);
  outputs = Lists(size, produced);
}

void TaskNet::SetEdges(std::vector<std::pair<int32_t, int32_t>> edges) {
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  after = Lists(size, edges);
  edges = TransitiveReduction(edges, after, ProgramOrder());
  after = Lists(size, edges);
  for (auto& [from, to] : edges) std::swap(from, to);
  before = Lists(size, edges);
}

TaskOrder TaskNet::ProgramOrder() const { return FirstReady(size, after); }

int64_t NetPeak(const TaskNet& net, const TaskOrder& order) {
  std::vector<int32_t> left(net.values.size());  // readers that have not run yet
  for (size_t v = 0; v < left.size(); ++v) left[v] = static_cast<int32_t>(net.readers[static_cast<int32_t>(v)].size());
  int64_t live = net.start_bytes;
  int64_t peak = 0;
  for (const int32_t task : order) {
    peak = std::max(peak, live + net.write_bytes[static_cast<size_t>(task)]);
    for (const int32_t v : net.outputs[task]) live += net.values[static_cast<size_t>(v)].bytes;
    for (const int32_t v : net.inputs[task]) {
      if (--left[static_cast<size_t>(v)] == 0) live -= net.values[static_cast<size_t>(v)].bytes;
    }
  }
  return peak;
}

Reachability::Reachability(const Lists& after, const TaskOrder& order)
    : trees_{GrowTree(after, order, false), GrowTree(after, order, true)} {}

// Grows depth-first trees, each from the first task in legal order that no tree has yet. A task's followers are visited
// first to last, or last to first.
std::vector<Reachability::Interval> Reachability::GrowTree(const Lists& after, const TaskOrder& order,
                                                           bool last_first) {
  std::vector<Interval> tree(order.size(), Interval{-1, -1});
  std::vector<std::pair<int32_t, size_t>> path;  // a task, and how many of its followers were visited
  int32_t count = 0;
  const auto enter = [&](int32_t task) {
    tree[static_cast<size_t>(task)].begin = count++;
    path.emplace_back(task, 0);
  };
  for (const int32_t root : order) {
    if (tree[static_cast<size_t>(root)].begin < 0) enter(root);
    while (!path.empty()) {
      auto& [task, looked] = path.back();
      const auto followers = after[task];
      if (looked == followers.size()) {
        tree[static_cast<size_t>(task)].end = count;
        path.pop_back();
        continue;
      }
      const int32_t next = followers[last_first ? followers.size() - 1 - looked : looked];
      ++looked;
      if (tree[static_cast<size_t>(next)].begin < 0) enter(next);
    }
  }
  return tree;
}

}  // namespace snug::core::memory
