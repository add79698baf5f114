// A model checker for code that is a template over its synchronisation primitives (engine/run/dependency/sync.h): runs
// it in every interleaving, sequentially consistent, and stops at the first in which an expectation fails or all
// threads are stuck.
//
// Threads are fibers of one system thread. Before each operation on a primitive the next thread to run is a choice; the
// choices of one execution are a path in a tree that is searched depth first, each path from the beginning. A state
// that was come to before is not followed again. A state is all bytes: those on the fibers' stacks, and those allocated
// by the execution, which lie in an arena of the model's, each thread's in a part of its own, so that equal states have
// equal bytes whatever led to them. (Bytes that mean nothing any more may differ; that costs time, no more.)
// Operations on what only one thread uses are no steps: who uses what is found out on the way, and the search begins
// anew when an object turns out to be shared.
//
// Not for sanitizers, which do not follow fibers: kSupported says so.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace snug::core::model {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSupported = false;
#else
inline constexpr bool kSupported = true;
#endif

class Model {
 public:
  struct Result {
    int64_t executions = 0;
    int64_t states = 0;   // in which there was a choice
    std::string failure;  // empty: none
  };
  // `program` is called for each execution: it makes what is shared and gives the model its threads.
  static Result Explore(const std::function<void(Model&)>& program);

  void Spawn(std::function<void()> body);
  // Called by threads: if it does not hold, the execution shows a bug.
  static void Expect(bool condition, const std::string& what) {
    if (!condition) current->Fail(what);
  }

  // What follows is for the primitives.

  static inline Model* current = nullptr;  // whose execution this is; null outside

  struct Location {
    int id = current == nullptr ? -1 : current->next_location_++;
  };
  struct Waitable {  // a mutex
    Location location;
    bool locked = false;
  };
  bool in_thread() const { return running_ >= 0; }
  // Others may run before the operation on it that follows.
  void SchedulingPoint(const Location& location) {
    if (IsShared(location)) Switch();
  }
  // Until it is not locked.
  void Await(Waitable& gate);
  void Lock(Waitable& mutex);
  void Unlock(Waitable& mutex) { mutex.locked = false; }
  // Until it is woken; releases the mutex meanwhile.
  void Sleep(const Location& location, std::vector<int>& sleepers, Waitable& mutex);
  void WakeOne(std::vector<int>& sleepers);
  void WakeAll(std::vector<int>& sleepers);

 private:
  struct Fiber {
    std::function<void()> body;
    ucontext_t context;
    const char* stack_low = nullptr;  // of what is in use, while others run
    Waitable* wants = nullptr;        // cannot go on while it is locked
    bool asleep = false;
    bool done = false;
  };
  struct Choice {
    std::vector<int> options;
    size_t taken = 0;
  };

  Fiber& Thread() { return *fibers_[static_cast<size_t>(running_)]; }
  static void Main();
  void Fail(const std::string& what);
  void Switch();
  void SwitchAway();
  bool IsShared(const Location& location);
  void RunOnce(const std::function<void(Model&)>& program);
  int Choose(const std::vector<int>& options, bool at_switch);
  uint64_t StateHash() const;
  std::string Path() const;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::unique_ptr<char[]>> stacks_;
  ucontext_t outside_;
  int running_ = -1;

  int next_location_ = 0;
  std::vector<int> users_;  // by location: the only thread to use it so far, kNobody or kSeveral
  bool found_shared_ = false;

  std::vector<Choice> path_;
  size_t depth_ = 0;
  bool known_ = false;  // this execution has come to a state that was followed before
  std::unordered_set<uint64_t> seen_;
  int64_t executions_ = 0;
  std::string failure_;
};

}  // namespace snug::core::model
