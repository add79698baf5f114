// Knows who waits for whom: each task counts what it still waits for, and lists the tasks that wait for it. One thread
// at a time links tasks (with the pushers' lock), while the threads that ran tasks finish them, without a lock. A task
// that has finished closes its list for good, and linking to a closed list fails.
#pragma once

#include <atomic>
#include <cstdint>

namespace snug::core {

template <class Sync>
class Links {
 public:
  // One wait. It belongs to the task that waits.
  struct Edge {
    Links* successor;
    Edge* next;
  };

  // Begins a new life as a task that is not finished. Nobody else may know of it yet.
  void Open() { successors_.store(nullptr, std::memory_order_relaxed); }
  // Must be called before linking: the task will wait for `count` others, and for one more Release() that ends linking.
  void Expect(int32_t count) { pending_.store(count + 1, std::memory_order_relaxed); }
  // Returns false if `predecessor` has finished, so that there is nothing to wait for.
  bool WaitFor(Links& predecessor, Edge& edge) {
    edge.successor = this;
    Edge* head = predecessor.successors_.load(std::memory_order_acquire);
    do {
      if (head == &closed) return false;
      edge.next = head;
    } while (!predecessor.successors_.compare_exchange_weak(head, &edge, std::memory_order_acq_rel,
                                                            std::memory_order_acquire));
    return true;
  }
  // Tells that `count` of what it waited for are over. Returns true if those were the last; the caller must then run
  // it.
  bool Release(int32_t count) { return pending_.fetch_sub(count, std::memory_order_acq_rel) == count; }

  bool finished() const { return successors_.load(std::memory_order_acquire) == &closed; }

  // Calls ready(task) for each task that now waits for nothing; the last one that was linked comes first.
  template <class Ready>
  void Finish(Ready&& ready) {
    Edge* edge = successors_.exchange(&closed, std::memory_order_acq_rel);
    while (edge != nullptr) {
      Links* successor = edge->successor;
      edge = edge->next;  // read before Release: after it the successor may be over, and its edges may be in use again
      if (successor->Release(1)) ready(*successor);
    }
  }

 private:
  static inline Edge closed = {nullptr, nullptr};  // only its address matters: it marks a closed list

  typename Sync::template Atomic<int32_t> pending_{0};
  typename Sync::template Atomic<Edge*> successors_{nullptr};
};

}  // namespace snug::core
