// A search for an order: what its stages share, and the stages, each in a .cc file of its own.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "memory/order/task_net.h"
#include "memory/planner.h"

namespace snug::core::memory {

// The best order and bound so far, what may still be spent, and the report.
class OrderSearch {
 public:
  // `net` must outlive this.
  OrderSearch(const TaskNet& net, const PlannerOptions& options, int64_t default_work);

  // Tightens a legal order (live_sweep.h), and keeps it if its peak is the least so far. Returns its peak.
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

// Closes the gap between the best order and the bound by asking for peaks between the two (exact_search.h). Runs until
// the gap is closed or the work is spent. Each question first gets little work, then more: what is too hard is left for
// later, and bounds on both sides of it, which are easier, are asked first.
void CloseGap(int64_t work_limit, OrderSearch* search);

// A lower bound for all orders. Just before a task t runs, in whatever order, the tasks that have run form a closed set
// that holds all that t needs and lacks t. The least live bytes of any such set are a minimum cut; no order has a lower
// peak than that and what t writes. Only tasks that could raise the bound are looked at, and first those at which the
// orders so far have their highest peaks.
void RaiseBoundByCuts(int64_t work_limit, OrderSearch* search);

// Builds orders out of cuts. It takes the worst task of an order and runs first the closed set with the fewest live
// bytes that lets this task run, then the task, then the rest. It goes on like that in both parts, each between what is
// fixed around it. Improves the best order for as long as that succeeds and work is left.
void ImproveByCuts(int64_t work_limit, OrderSearch* search);

// Makes local moves: it reorders a stretch of the best order around its worst place by exact search, and leaves
// everything around it as it is. It works on orders of any length. Goes on for as long as a stretch of 16 to 128 tasks
// can be improved and work is left.
void ImproveByWindows(int64_t work_limit, OrderSearch* search);

// The default orderer finds the order of least peak that it can within the work limit, and a bound that says how far
// from the optimum that can be. The report's bound holds for all legal orders.
absl::StatusOr<Ordering> OrderBest(const Tasks& tasks, const PlannerOptions& options);

// Runs the first stage of OrderBest alone: greedy orders, in O(edges log n). The bound is the largest sum of one task's
// inputs and outputs.
absl::StatusOr<Ordering> OrderGreedy(const Tasks& tasks, const PlannerOptions& options);

}  // namespace snug::core::memory
