// Answers whether there is an order whose peak is at most a bound. It searches depth first over closed sets and visits
// each once.
//
// Let T be a closed set that holds the current set S. The search takes T and looks at no alternative if no closed set
// from S to T has fewer live bytes than T and the way to T stays below the bound: live is submodular, so if any order
// goes on from S, one goes on through T. Such T are found as single tasks that free at least what they write, and as a
// task with the chain of tasks that it makes ready.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "memory/order/late_tasks.h"
#include "memory/order/live_sweep.h"
#include "memory/order/task_net.h"
#include "memory/order/task_sets.h"

namespace snug::core::memory {

enum class Answer {
  kFound,
  kNone,     // it is proven that there is none
  kUnknown,  // the work ran out before an answer
};

class ExactSearch {
 public:
  // Late tasks are either taken along with the task that needs them, which leaves fewer sets to visit, or treated like
  // any other task, which leaves more chances to go on without alternatives. Neither is always faster.
  enum class Late { kTakenAlong, kLikeOthers };
  ExactSearch(const TaskNet& net, Late late);

  // Spends about `work_limit` steps (tasks taken or looked at). Asked for the same bound again, it goes on where it
  // stopped. Asked for a lower bound, it still remembers which sets led nowhere.
  Answer Decide(int64_t bound, int64_t work_limit);
  const TaskOrder& order() const { return order_; }  // valid after kFound
  int64_t work() const { return work_; }

 private:
  struct Frame {
    TaskSetHash hash;              // the hash of the closed set
    size_t depth = 0;              // the length of order_ at this set
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
  std::vector<TaskSetHash> keys_;  // indexed by task
  LiveSweep sweep_;
  std::vector<int32_t> missing_;  // for each task that is not late: how many of the tasks it needs are not taken yet
  TaskSetHash hash_;
  TaskOrder order_;
  std::vector<uint64_t> ready_;  // a bit for each task: not late, not taken, and nothing missing
  std::vector<int32_t> chain_;
  TaskSets failed_;
  std::vector<Frame> frames_;
  int64_t bound_ = std::numeric_limits<int64_t>::max();
  Answer answer_ = Answer::kFound;  // the answer for bound_, so far
  int64_t work_ = 0;
};

}  // namespace snug::core::memory
