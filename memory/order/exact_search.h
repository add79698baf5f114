// Is there an order whose peak is at most a bound? Depth first over closed sets, each visited once.
//
// From a closed set S, a set T that holds it is taken without looking at anything else if no closed set from S to T has
// fewer live bytes than T, and the way to T stays below the bound: if any order exists from S on, one does that passes
// T, because live is submodular. Such T are found as single tasks that free at least what they write, and as a task
// with the chain of tasks that it makes ready.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "memory/order/late_tasks.h"
#include "memory/order/live_sweep.h"
#include "memory/order/task_net.h"
#include "memory/order/task_sets.h"

namespace snug::memory {

enum class Answer {
  kFound,
  kNone,     // proven
  kUnknown,  // the work ran out
};

class ExactSearch {
 public:
  // Late tasks are taken along, which leaves fewer sets to visit, or are tasks like others, which leaves more chances
  // to go on without looking at anything else. Neither is always the faster.
  enum class Late { kTakenAlong, kLikeOthers };
  ExactSearch(const TaskNet& net, Late late);

  // Spends about `work_limit` steps (tasks taken or looked at). Asked for the same bound again, it goes on where it
  // stopped; for a lower one, it remembers which sets led nowhere.
  Answer Decide(int64_t bound, int64_t work_limit);
  const TaskOrder& order() const { return order_; }  // when found
  int64_t work() const { return work_; }

 private:
  struct Frame {
    TaskSetHash hash;              // of the closed set
    size_t depth = 0;              // of order_
    std::vector<int32_t> choices;  // the last one is tried next
  };

  Answer Start(int64_t bound);
  void Flip(int32_t task);
  bool IsReady(int32_t task) const;
  void Take(int32_t task);
  bool TakeAll(int32_t task, int64_t most_live);
  void UndoTo(size_t depth);
  bool Fits(int32_t task) const { return sweep_.live() + sweep_.Rise(task) <= bound_; }
  template <typename Visit>
  void ForEachReady(const Visit& visit) const;
  void TakeIfFree(int32_t task);
  void TakeFree();
  int64_t LeastLive(const std::vector<int32_t>& tasks, size_t from);
  bool TakeSinkingChain(int32_t task);
  bool Advance(Frame* frame);

  const TaskNet& net_;
  const LateTasks late_;
  std::vector<TaskSetHash> keys_;  // of each task
  LiveSweep sweep_;
  std::vector<int32_t> missing_;  // of each task that is not late: how many of those it needs were not taken
  TaskSetHash hash_;
  TaskOrder order_;
  std::vector<uint64_t> ready_;  // a bit for each task: not late, not taken, and nothing missing
  std::vector<int32_t> chain_;
  TaskSets failed_;
  std::vector<Frame> frames_;
  int64_t bound_ = std::numeric_limits<int64_t>::max();
  Answer answer_ = Answer::kFound;  // to bound_, so far
  int64_t work_ = 0;
};

}  // namespace snug::memory
