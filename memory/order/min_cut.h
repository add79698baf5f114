// Finds the closed set with the fewest live bytes among those that hold given tasks and lack others: a minimum cut.
//
// Tasks in the set are on the source's side. A value with several readers is a node of its own between its producer and
// them, so that it is cut, and paid for, only once. It uses Dinic's algorithm; the graph is built once and solved again
// and again.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "memory/order/task_net.h"

namespace snug::core::memory {

class MinCut {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  // `net` must outlive this.
  explicit MinCut(const TaskNet& net);

  // Returns live(S) of the best closed S that holds `inside` and what it needs, and lacks `outside` and what needs it.
  // The two must not contradict each other. Inside() then tells the smallest such S. After `work_limit` arcs it gives
  // up: complete() is false, the result is only a lower bound of live(S), and there is no set.
  int64_t Solve(absl::Span<const int32_t> inside, absl::Span<const int32_t> outside, int64_t work_limit = kNoLimit);
  bool complete() const { return complete_; }
  bool Inside(int32_t task) const { return inside_[static_cast<size_t>(task)] != 0; }

  // Counts the arcs looked at since the beginning, which measures the work.
  int64_t work() const { return work_; }

 private:
  void AddArc(int32_t from, int32_t to, int64_t capacity);
  void Link();
  void Bind(absl::Span<const int32_t> tasks, const Lists& next, const std::vector<int32_t>& arc);
  bool Layer();
  int64_t Push();
  void MarkInside();

  static constexpr int64_t kUnlimited = int64_t{1} << 62;

  const TaskNet& net_;
  int32_t tasks_;
  int32_t nodes_;  // tasks, shared values, source and sink
  int64_t always_live_ = 0;
  struct Arc {
    int32_t from, to;
    int64_t capacity;
  };
  std::vector<Arc> new_arcs_;
  // Arcs are sorted by their node; arc a and reverse_[a] make a pair.
  std::vector<int32_t> begin_, to_, reverse_;
  std::vector<int64_t> capacity_, left_;
  std::vector<int32_t> source_arc_, sink_arc_;  // by task: its arc from the source, and its arc to the sink
  std::vector<int32_t> layer_, next_, queue_, path_;
  std::vector<char> inside_;
  int64_t work_ = 0;
  int64_t stop_ = 0;  // gives up when the work reaches this
  bool complete_ = false;
};

}  // namespace snug::core::memory
