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

#include "memory/order/live_sweep.h"
#include "memory/order/task_net.h"

namespace snug::memory {

enum class Answer {
  kFound,
  kNone,     // proven
  kUnknown,  // the work ran out
};

class ExactSearch {
 public:
  explicit ExactSearch(const TaskNet& net);

  // Spends about `work_limit` steps (tasks taken or looked at). Asked for the same bound again, it goes on where it
  // stopped; for a lower one, it remembers which sets led nowhere.
  Answer Decide(int64_t bound, int64_t work_limit);
  const TaskOrder& order() const { return order_; }  // when found
  int64_t work() const { return work_; }

 private:
  struct Hash {
    uint64_t low = 0, high = 0;
  };
  // Hashes of closed sets, 128 bits each: that two sets of a search share one is beyond chance.
  class Visited {
   public:
    void Insert(Hash hash);  // forgotten when there are too many
    bool Holds(Hash hash) const;
    void Clear() { *this = Visited(); }

   private:
    void Grow();
    std::vector<Hash> slots_;
    size_t count_ = 0;
  };
  struct Frame {
    Hash hash;                     // of the closed set
    size_t depth = 0;              // of order_
    std::vector<int32_t> choices;  // the last one is tried next
  };

  Answer Start(int64_t bound);
  void Take(int32_t task);
  void UndoTo(size_t depth);
  bool Fits(int32_t task) const { return sweep_.live() + sweep_.Rise(task) <= bound_; }
  template <typename Visit>
  void ForEachReady(const Visit& visit) const;
  void TakeIfFree(int32_t task);
  void TakeFree();
  bool TakeSinkingChain(int32_t task);
  bool Advance(Frame* frame);

  const TaskNet& net_;
  std::vector<Hash> keys_;  // of each task
  LiveSweep sweep_;
  Hash hash_;
  TaskOrder order_;
  std::vector<uint64_t> ready_;  // a bit for each task
  std::vector<int32_t> chain_;
  Visited failed_;
  std::vector<Frame> frames_;
  int64_t bound_ = std::numeric_limits<int64_t>::max();
  Answer answer_ = Answer::kFound;  // to bound_, so far
  int64_t work_ = 0;
};

}  // namespace snug::memory
