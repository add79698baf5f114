#include "memory/order/task_net.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

namespace snug::memory {
namespace {

using Pairs = std::vector<std::pair<int32_t, int32_t>>;

constexpr int32_t kReduceUpTo = 4096;  // tasks: the reduction below takes n * n bits and n * edges / 64 steps

// What is left of `edges` (sorted, each once) without those that a longer path implies.
Pairs TransitiveReduction(int32_t n, const Pairs& edges, const TaskOrder& order) {
  const size_t words = (static_cast<size_t>(n) + 63) / 64;
  std::vector<uint64_t> reach(static_cast<size_t>(n) * words, 0);  // of each task: itself and what follows it
  std::vector<int32_t> position(static_cast<size_t>(n));
  for (size_t at = 0; at < order.size(); ++at) position[static_cast<size_t>(order[at])] = static_cast<int32_t>(at);
  const Lists after(n, edges);
  Pairs kept;
  std::vector<int32_t> followers;
  for (size_t at = order.size(); at-- > 0;) {
    const int32_t task = order[at];
    uint64_t* mine = &reach[static_cast<size_t>(task) * words];
    followers.assign(after[task].begin(), after[task].end());
    // The nearest first: what one of them reaches needs no edge of its own.
    std::sort(followers.begin(), followers.end(), [&](int32_t a, int32_t b) {
      return position[static_cast<size_t>(a)] < position[static_cast<size_t>(b)];
    });
    for (const int32_t follower : followers) {
      const auto f = static_cast<size_t>(follower);
      if ((mine[f / 64] >> (f % 64) & 1) != 0) continue;
      kept.emplace_back(task, follower);
      for (size_t w = 0; w < words; ++w) mine[w] |= reach[f * words + w];
    }
    mine[static_cast<size_t>(task) / 64] |= uint64_t{1} << (static_cast<size_t>(task) % 64);
  }
  std::sort(kept.begin(), kept.end());
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

}  // namespace

Lists::Lists(int32_t n, absl::Span<const std::pair<int32_t, int32_t>> pairs) : begin_(static_cast<size_t>(n) + 1, 0) {
  for (const auto& [list, item] : pairs) ++begin_[static_cast<size_t>(list) + 1];
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  items_.resize(pairs.size());
  std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
  for (const auto& [list, item] : pairs) items_[next[static_cast<size_t>(list)]++] = item;
}

TaskNet::TaskNet(const Tasks& tasks) : size(tasks.size()), write_bytes(tasks.names.size(), 0) {
  Pairs edges = tasks.edges;
  Pairs reads;
  std::map<std::pair<int32_t, std::vector<int32_t>>, int32_t> known;  // (producer, readers) -> value
  for (const TaskValue& value : tasks.values) {
    if (value.resident) {
      resident_bytes += value.size_bytes;
      continue;
    }
    std::vector<int32_t> readers = value.readers;
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    if (value.producer >= 0) {
      for (const int32_t reader : readers) edges.emplace_back(value.producer, reader);
      write_bytes[static_cast<size_t>(value.producer)] += value.size_bytes;
    }
    if (value.fetched) readers.clear();  // whoever reads it, it lives to the end
    if (value.size_bytes == 0 || (readers.empty() && !value.fetched)) continue;  // of no influence outside its producer
    if (value.producer < 0) start_bytes += value.size_bytes;
    const auto id = static_cast<int32_t>(values.size());
    const auto [it, fresh] =
        known.try_emplace({value.producer, value.fetched ? std::vector<int32_t>{-1} : readers}, id);
    if (fresh) {
      values.push_back({value.size_bytes, value.producer, value.fetched});
      for (const int32_t reader : readers) reads.emplace_back(id, reader);
    } else {
      values[static_cast<size_t>(it->second)].bytes += value.size_bytes;
    }
  }
  Pairs read_by, produced_by;
  for (const auto& [value, reader] : reads) read_by.emplace_back(reader, value);
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].producer >= 0) produced_by.emplace_back(values[v].producer, static_cast<int32_t>(v));
  }
  readers = Lists(static_cast<int32_t>(values.size()), reads);
  inputs = Lists(size, read_by);
  outputs = Lists(size, produced_by);

  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  after = Lists(size, edges);
  if (size <= kReduceUpTo) {
    edges = TransitiveReduction(size, edges, ProgramOrder());
    after = Lists(size, edges);
  }
  for (auto& [from, to] : edges) std::swap(from, to);
  before = Lists(size, edges);
}

TaskOrder TaskNet::ProgramOrder() const { return FirstReady(size, after); }

int64_t NetPeak(const TaskNet& net, const TaskOrder& order) {
  std::vector<int32_t> left(net.values.size());  // readers to come
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

}  // namespace snug::memory
