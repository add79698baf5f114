// Answers whether there is an order whose peak is at most a bound. It searches depth first over closed sets and visits
// each once.
//
// Let T be a closed set that holds the current set S. The search takes T and looks at no alternative if no closed set
// from S to T has fewer live bytes than T and the way to T stays below the bound: live is submodular, so if any order
// goes on from S, one goes on through T. Such T are found as single tasks that free at least what they write, and as a
// task with the chain of tasks that it makes ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "memory/order/live_sweep.h"
#include "memory/order/task_net.h"

namespace snug::core::memory {

// The exclusive or of the random keys of a set's tasks.
struct TaskSetHash {
  uint64_t low = 0, high = 0;
};

// Remembers the sets of tasks that a search has visited, by hashes of 128 bits: that two sets of a search share one is
// as good as impossible.
class TaskSets {
 public:
  // Inserts a set that is not held yet. It is dropped when there are too many already: the table takes at most 128 MiB.
  void Insert(TaskSetHash hash);
  bool Holds(TaskSetHash hash) const;
  void Clear() { *this = TaskSets(); }

 private:
  void Grow();

  std::vector<TaskSetHash> slots_;  // open addressing; all zeros means empty
  size_t count_ = 0;
};

// A late task never frees anything; it runs just before the first task that waits for it (reduce.h says why). Late
// tasks with one follower were merged with it before. For the others a search should not ask when they run, but take
// them along.
struct LateTasks {
  // With `none`, no task counts as late.
  LateTasks(const TaskNet& net, bool none);

  std::vector<char> late;  // indexed by task
  // `along` has for each task that is not late the late ones that it needs, in the order that needs the fewest bytes.
  // It leaves out those that are needed only through other tasks that are not late. `before` and `after` are the
  // precedence among tasks that are not late.
  Lists along;
  Lists before, after;
};

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
