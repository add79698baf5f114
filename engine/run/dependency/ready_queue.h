// The tasks of one device that are ready, and the sleep of its workers. There is one lane for all workers, and one for
// each, to which stream hints lead; workers take from another's lane rather than stand idle.
//
// Waking costs more than most tasks. So at most one idle worker polls for a while before it sleeps. While one polls, or
// while one that was woken is on its way, pushing wakes nobody. A worker that takes a task and leaves others behind
// wakes the next, so that as many get up as there is work for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <mutex>
#include <vector>

namespace snug::core {

// A queue of intrusive nodes: the highest priority comes first, and within one priority the node that waits longest.
// Thread-compatible. Node needs `Node* next` and `int32_t priority`. Push takes one step for each higher priority in
// the queue.
template <class Node>
class PriorityFifo {
 public:
  void Push(Node* node) {
    auto at = levels_.end();
    while (at != levels_.begin() && std::prev(at)->priority > node->priority) --at;
    if (at == levels_.begin() || std::prev(at)->priority != node->priority) {
      at = levels_.insert(at, Level{node->priority, nullptr, nullptr});
    } else {
      --at;
    }
    node->next = nullptr;
    (at->last == nullptr ? at->first : at->last->next) = node;
    at->last = node;
  }
  // Returns what Pop() would, or null.
  Node* Top() const { return levels_.empty() ? nullptr : levels_.back().first; }
  Node* Pop() {
    Level& level = levels_.back();
    Node* node = level.first;
    level.first = node->next;
    if (level.first == nullptr) levels_.pop_back();
    return node;
  }

 private:
  struct Level {
    int32_t priority;
    Node *first, *last;
  };
  std::vector<Level> levels_;  // by rising priority, none of them empty
};

// Node needs `Node* next`, `int32_t priority` and `int32_t stream` (< 0: any).
template <class Sync, class Node>
class ReadyQueue {
 public:
  explicit ReadyQueue(int workers) : workers_(workers), lanes_(static_cast<size_t>(workers) + 1) {}

  void Push(Node* node) {
    bool wake;
    {
      const std::lock_guard lock(mu_);
      lanes_[node->stream < 0 ? 0 : static_cast<size_t>(node->stream % workers_) + 1].Push(node);
      highest_.store(std::max(highest_.load(std::memory_order_relaxed), node->priority), std::memory_order_relaxed);
      size_.store(size_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      wake = WantsWaking();
    }
    if (wake) awake_.notify_one();
  }

  // Returns null if there is none.
  Node* TryPop(int worker) {
    if (empty()) return nullptr;
    std::unique_lock lock(mu_);
    return TakeAndUnlock(worker, lock);
  }

  // Waits for a task. Returns null once the queue is closed and empty.
  Node* Pop(int worker) {
    if (Sync::kPolls > 0 && !polling_.exchange(true, std::memory_order_acq_rel)) {
      // The pause comes first: while a pusher and a worker are equally fast, some tasks gather in it and are then
      // linked to each other. Handing each one over by itself would cost both threads several cache misses.
      for (int i = 0; i < Sync::kPolls; ++i) {
        Sync::Pause();
        if (!empty()) break;
      }
      polling_.store(false, std::memory_order_release);
    }
    std::unique_lock lock(mu_);
    while (size_.load(std::memory_order_relaxed) == 0 && !closed_) {
      ++sleepers_;
      awake_.wait(lock);
      --sleepers_;
      waking_ = false;
    }
    return TakeAndUnlock(worker, lock);
  }

  bool empty() const { return size_.load(std::memory_order_acquire) == 0; }
  // Tells whether the worker may run this task at once, past the queue: nothing in the queue may be more urgent, and
  // the task must not be meant for another worker.
  bool MayPass(const Node& node, int worker) const {
    return (node.stream < 0 || node.stream % workers_ == worker) &&
           highest_.load(std::memory_order_acquire) <= node.priority;
  }

  void Close() {
    {
      const std::lock_guard lock(mu_);
      closed_ = true;
    }
    awake_.notify_all();
  }
  void Reopen() {
    const std::lock_guard lock(mu_);
    closed_ = false;
  }

 private:
  static constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();

  // Needs the lock. It need not wake anyone while somebody polls, or was woken and is on its way: that worker looks at
  // the queue under the lock later.
  bool WantsWaking() {
    if (sleepers_ == 0 || waking_ || size_.load(std::memory_order_relaxed) == 0 ||
        polling_.load(std::memory_order_acquire)) {
      return false;
    }
    waking_ = true;
    return true;
  }

  Node* TakeAndUnlock(int worker, std::unique_lock<typename Sync::Mutex>& lock) {
    PriorityFifo<Node>* best = nullptr;
    const auto consider = [&](PriorityFifo<Node>& lane) {
      if (lane.Top() != nullptr && (best == nullptr || lane.Top()->priority > best->Top()->priority)) best = &lane;
    };
    consider(lanes_[static_cast<size_t>(worker) + 1]);
    consider(lanes_[0]);
    if (best == nullptr) std::for_each(lanes_.begin() + 1, lanes_.end(), consider);
    if (best == nullptr) return nullptr;
    Node* node = best->Pop();
    const int32_t left = size_.load(std::memory_order_relaxed) - 1;
    size_.store(left, std::memory_order_relaxed);
    if (left == 0) highest_.store(kLowest, std::memory_order_relaxed);
    const bool wake = WantsWaking();
    lock.unlock();
    if (wake) awake_.notify_one();
    return node;
  }

  const int workers_;
  // These are read without the lock as a hint to take it; the first two only change under it.
  typename Sync::template Atomic<int32_t> size_{0};
  typename Sync::template Atomic<int32_t> highest_{kLowest};  // no task in the queue has a higher priority
  typename Sync::template Atomic<bool> polling_{false};
  typename Sync::Mutex mu_;  // guards all members below
  typename Sync::Condition awake_;
  std::vector<PriorityFifo<Node>> lanes_;
  int sleepers_ = 0;
  bool waking_ = false;
  bool closed_ = false;
};

}  // namespace snug::core
