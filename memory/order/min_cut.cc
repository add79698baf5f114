#include "memory/order/min_cut.h"

#include <algorithm>

namespace snug::core::memory {

MinCut::MinCut(const TaskNet& net) : net_(net), tasks_(net.size), nodes_(net.size) {
  for (int32_t v = 0; v < static_cast<int32_t>(net.values.size()); ++v) nodes_ += net.readers[v].size() > 1 ? 1 : 0;
  const int32_t source = nodes_++;
  const int32_t sink = nodes_++;
  for (int32_t t = 0; t < tasks_; ++t) AddArc(source, t, 0);
  for (int32_t t = 0; t < tasks_; ++t) AddArc(t, sink, 0);
  for (int32_t t = 0; t < tasks_; ++t) {
    for (const int32_t earlier : net.before[t]) AddArc(t, earlier, kUnlimited);
  }
  int32_t shared = tasks_;
  for (int32_t v = 0; v < static_cast<int32_t>(net.values.size()); ++v) {
    const NetValue& value = net.values[static_cast<size_t>(v)];
    if (value.fetched && value.producer < 0) {
      always_live_ += value.bytes;
      continue;
    }
    const int32_t producer = value.producer < 0 ? source : value.producer;
    const auto readers = net.readers[v];
    if (value.fetched || readers.size() == 1) {
      AddArc(producer, value.fetched ? sink : readers[0], value.bytes);
      continue;
    }
    AddArc(producer, shared, value.bytes);
    for (const int32_t reader : readers) AddArc(shared, reader, kUnlimited);
    ++shared;
  }
  Link();
}

void MinCut::AddArc(int32_t from, int32_t to, int64_t capacity) { new_arcs_.push_back({from, to, capacity}); }

void MinCut::Link() {
  const size_t n = static_cast<size_t>(nodes_);
  begin_.assign(n + 1, 0);
  for (const Arc& arc : new_arcs_) {
    ++begin_[static_cast<size_t>(arc.from) + 1];
    ++begin_[static_cast<size_t>(arc.to) + 1];
  }
  for (size_t i = 1; i <= n; ++i) begin_[i] += begin_[i - 1];
  std::vector<int32_t> next(begin_.begin(), begin_.end() - 1);
  to_.resize(2 * new_arcs_.size());
  reverse_.resize(to_.size());
  capacity_.assign(to_.size(), 0);
  for (size_t i = 0; i < new_arcs_.size(); ++i) {
    const Arc& arc = new_arcs_[i];
    const int32_t there = next[static_cast<size_t>(arc.from)]++;
    const int32_t back = next[static_cast<size_t>(arc.to)]++;
    to_[static_cast<size_t>(there)] = arc.to;
    to_[static_cast<size_t>(back)] = arc.from;
    reverse_[static_cast<size_t>(there)] = back;
    reverse_[static_cast<size_t>(back)] = there;
    capacity_[static_cast<size_t>(there)] = arc.capacity;
    if (i < static_cast<size_t>(tasks_)) {
      source_arc_.push_back(there);
    } else if (i < 2 * static_cast<size_t>(tasks_)) {
      sink_arc_.push_back(there);
    }
  }
  new_arcs_ = {};
  layer_.resize(n);
  next_.resize(n);
  inside_.resize(n);
}

int64_t MinCut::Solve(absl::Span<const int32_t> inside, absl::Span<const int32_t> outside, int64_t work_limit) {
  stop_ = work_limit > kNoLimit - work_ ? kNoLimit : work_ + work_limit;
  left_ = capacity_;
  Bind(inside, net_.before, source_arc_);
  Bind(outside, net_.after, sink_arc_);
  work_ += static_cast<int64_t>(left_.size()) / 8;  // copying an arc is cheaper than looking at it
  int64_t flow = 0;
  while (work_ < stop_ && Layer()) flow += Push();
  complete_ = work_ < stop_;
  if (complete_) MarkInside();
  return flow + always_live_;
}

// Ties tasks, and all that they imply, to the source or the sink. The tasks alone would do, as precedence ties the
// others to them; but then ways are as long as chains of tasks are, and each length takes a Layer of its own.
void MinCut::Bind(absl::Span<const int32_t> tasks, const Lists& next, const std::vector<int32_t>& arc) {
  queue_.clear();
  const auto bind = [&](int32_t task) {
    int64_t& left = left_[static_cast<size_t>(arc[static_cast<size_t>(task)])];
    if (left == kUnlimited) return;
    left = kUnlimited;
    queue_.push_back(task);
  };
  for (const int32_t task : tasks) bind(task);
  for (size_t at = 0; at < queue_.size(); ++at) {
    for (const int32_t implied : next[queue_[at]]) bind(implied);
    work_ += static_cast<int64_t>(next[queue_[at]].size());
  }
}

// Finds distances to the sink, breadth first from it. Returns false when the source has no way to it.
bool MinCut::Layer() {
  const int32_t source = nodes_ - 2;
  const int32_t sink = nodes_ - 1;
  std::fill(layer_.begin(), layer_.end(), -1);
  layer_[static_cast<size_t>(sink)] = 0;
  queue_.assign(1, sink);
  for (size_t at = 0; at < queue_.size(); ++at) {
    const auto node = static_cast<size_t>(queue_[at]);
    for (int32_t a = begin_[node]; a < begin_[node + 1]; ++a) {
      ++work_;
      const int32_t other = to_[static_cast<size_t>(a)];
      if (layer_[static_cast<size_t>(other)] >= 0 ||
          left_[static_cast<size_t>(reverse_[static_cast<size_t>(a)])] == 0) {
        continue;
      }
      layer_[static_cast<size_t>(other)] = layer_[node] + 1;
      if (other == source) return true;
      queue_.push_back(other);
    }
  }
  return false;
}

// Pushes flow along shortest ways until there is none, or until the work is spent.
int64_t MinCut::Push() {
  const int32_t source = nodes_ - 2;
  const int32_t sink = nodes_ - 1;
  std::copy(begin_.begin(), begin_.end() - 1, next_.begin());
  int64_t flow = 0;
  path_.clear();
  int32_t node = source;
  for (;;) {
    if (node == sink) {
      int64_t amount = kUnlimited;
      for (const int32_t a : path_) amount = std::min(amount, left_[static_cast<size_t>(a)]);
      size_t keep = path_.size();  // the number of arcs before the first one that is now full
      for (size_t i = path_.size(); i-- > 0;) {
        const auto a = static_cast<size_t>(path_[i]);
        left_[a] -= amount;
        left_[static_cast<size_t>(reverse_[a])] += amount;
        if (left_[a] == 0) keep = i;
      }
      flow += amount;
      node = to_[static_cast<size_t>(reverse_[static_cast<size_t>(path_[keep])])];
      path_.resize(keep);
    }
    const auto n = static_cast<size_t>(node);
    int32_t& a = next_[n];
    for (; a < begin_[n + 1]; ++a) {
      ++work_;
      const auto other = static_cast<size_t>(to_[static_cast<size_t>(a)]);
      if (left_[static_cast<size_t>(a)] > 0 && layer_[other] >= 0 && layer_[other] == layer_[n] - 1) break;
    }
    if (a < begin_[n + 1]) {
      path_.push_back(a);
      node = to_[static_cast<size_t>(a)];
    } else if (path_.empty() || work_ >= stop_) {
      return flow;
    } else {
      layer_[n] = -1;
      node = to_[static_cast<size_t>(reverse_[static_cast<size_t>(path_.back())])];
      path_.pop_back();
    }
  }
}

void MinCut::MarkInside() {
  const int32_t source = nodes_ - 2;
  std::fill(inside_.begin(), inside_.end(), 0);
  inside_[static_cast<size_t>(source)] = 1;
  queue_.assign(1, source);
  for (size_t at = 0; at < queue_.size(); ++at) {
    const auto node = static_cast<size_t>(queue_[at]);
    for (int32_t a = begin_[node]; a < begin_[node + 1]; ++a) {
      ++work_;
      const auto other = static_cast<size_t>(to_[static_cast<size_t>(a)]);
      if (inside_[other] != 0 || left_[static_cast<size_t>(a)] == 0) continue;
      inside_[other] = 1;
      queue_.push_back(static_cast<int32_t>(other));
    }
  }
}

}  // namespace snug::core::memory
