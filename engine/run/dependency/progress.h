// Counts how much of what was pushed has finished, and lets threads sleep until everything has, or until there is room
// to push more. Each worker counts on a cache line of its own; only those who need sums make them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

namespace snug::core {

template <class Sync>
class Progress {
 public:
  struct Amount {
    int64_t tasks = 0;
    int64_t bytes = 0;
  };
  static constexpr int64_t kEveryTask = std::numeric_limits<int64_t>::max();

  explicit Progress(int lanes) : lanes_(static_cast<size_t>(lanes)) {}

  // Must be called by one thread at a time.
  void CountPushed(int64_t bytes) {
    if (bytes != 0) pushed_.bytes.fetch_add(bytes, std::memory_order_relaxed);
    pushed_.tasks.fetch_add(1, std::memory_order_seq_cst);
  }
  // Returns how many tasks the lane has finished, this one included.
  int64_t CountFinished(int lane, int64_t bytes) {
    Count& mine = lanes_[static_cast<size_t>(lane)];
    if (bytes != 0) mine.bytes.fetch_add(bytes, std::memory_order_relaxed);
    return mine.tasks.fetch_add(1, std::memory_order_seq_cst) + 1;
  }

  Amount Pushed() const {
    return {pushed_.tasks.load(std::memory_order_seq_cst), pushed_.bytes.load(std::memory_order_relaxed)};
  }
  Amount Finished() const {
    Amount sum;
    for (const Count& lane : lanes_) {
      sum.tasks += lane.tasks.load(std::memory_order_seq_cst);
      sum.bytes += lane.bytes.load(std::memory_order_relaxed);
    }
    return sum;
  }
  // If it returns no tasks, then nothing was unfinished at some moment of this call, because what had finished was
  // counted first.
  Amount Unfinished() const {
    const Amount finished = Finished();
    const Amount pushed = Pushed();
    return {pushed.tasks - finished.tasks, pushed.bytes - finished.bytes};
  }

  // Sleeps until done(), which is asked again whenever Announce() finds at most `tasks` unfinished.
  template <class Done>
  void Await(int64_t tasks, Done&& done) {
    for (int i = 0; i < Sync::kPolls; ++i) {
      if (done()) return;
      Sync::Pause();
    }
    std::unique_lock lock(mu_);
    ++waiters_;
    // This must come before done() looks at the counts: a thread that counts a task after that look then sees it.
    awaited_.store(std::max(awaited_.load(std::memory_order_relaxed), tasks), std::memory_order_seq_cst);
    while (!done()) changed_.wait(lock);
    if (--waiters_ == 0) awaited_.store(kNobody, std::memory_order_release);
  }
  // Returns the largest number of unfinished tasks that somebody waits for; negative: nobody waits.
  int64_t awaited() const { return awaited_.load(std::memory_order_seq_cst); }
  void Announce() {
    const int64_t tasks = awaited();
    if (tasks == kNobody || Unfinished().tasks > tasks) return;
    { const std::lock_guard lock(mu_); }  // a thread that found the counts too high is asleep by now
    changed_.notify_all();
  }

 private:
  static constexpr int64_t kNobody = -1;

  struct alignas(64) Count {
    typename Sync::template Atomic<int64_t> tasks{0};
    typename Sync::template Atomic<int64_t> bytes{0};
  };

  std::vector<Count> lanes_;
  Count pushed_;
  alignas(64) typename Sync::template Atomic<int64_t> awaited_{kNobody};
  typename Sync::Mutex mu_;  // guards all members below
  typename Sync::Condition changed_;
  int waiters_ = 0;
};

}  // namespace snug::core
