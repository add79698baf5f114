// What the stages of a search for an order share: the best order and bound so far, what may still be spent, and the
// report.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "memory/order/task_net.h"
#include "memory/planner.h"

namespace snug::core::memory {

class OrderSearch {
 public:
  // `net` must outlive this.
  OrderSearch(const TaskNet& net, const PlannerOptions& options, int64_t default_work);

  // Tightens a legal order (greedy.h), and keeps it if its peak is the least so far. Returns its peak.
  int64_t Offer(const TaskOrder& order);
  // Tells that no order has a lower peak.
  void RaiseBound(int64_t bound);

  const TaskNet& net() const { return net_; }
  const TaskOrder& best() const { return best_; }
  int64_t peak() const { return peak_; }  // this and bound() do not count resident bytes
  int64_t bound() const { return bound_; }
  // Returns, by task, the fewest bytes that were live while it ran in any offered order.
  const std::vector<int64_t>& least_seen() const { return least_seen_; }

  int threads() const { return options_.threads; }
  void Spend(int64_t work) { report_.work += work; }
  int64_t work_left() const { return work_limit_ - report_.work; }
  // Tells whether the optimum is proven, the peak is as small as was asked for, or all work is spent.
  bool Done();

  // Returns the report so far. Its figures include resident bytes.
  SearchReport Report();

 private:
  double Seconds() const;
  void Note();

  const TaskNet& net_;
  const PlannerOptions options_;
  const int64_t work_limit_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  TaskOrder best_;
  int64_t peak_;
  int64_t bound_;
  std::vector<int64_t> least_seen_;
  SearchReport report_;
};

}  // namespace snug::core::memory
