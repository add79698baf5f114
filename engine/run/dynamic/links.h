// Who waits for whom: each task has a count of what it still waits for, and a list of those that wait for it. Linking
// is done by one thread at a time (the pusher's lock), finishing by the thread that ran the task, both at once without
// a lock: the list is closed for good when the task has finished, and linking to a closed list fails.
#pragma once

#include <atomic>
#include <cstdint>

namespace snug {

template <class Sync>
class Links {
 public:
  // One wait; it belongs to the task that waits.
  struct Edge {
    Links* successor;
    Edge* next;
  };

  // A new life, before anybody else knows of it: not finished.
  void Open() { successors_.store(nullptr, std::memory_order_relaxed); }
  // Before it is linked: it will wait for `count` others, and for one Release() more that ends linking.
  void Expect(int32_t count) { pending_.store(count + 1, std::memory_order_relaxed); }
  // False if `predecessor` has finished: then there is nothing to wait for.
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
  // `count` of what it waited for are over. True if those were the last: the caller has to see that it runs.
  bool Release(int32_t count) { return pending_.fetch_sub(count, std::memory_order_acq_rel) == count; }

  bool finished() const { return successors_.load(std::memory_order_acquire) == &closed; }

  // ready(task) for each that waited for nothing else any more, the last one linked first.
  template <class Ready>
  void Finish(Ready&& ready) {
    Edge* edge = successors_.exchange(&closed, std::memory_order_acq_rel);
    while (edge != nullptr) {
      Links* successor = edge->successor;
      edge = edge->next;  // read before: once released, the successor may be over and its edges used again
      if (successor->Release(1)) ready(*successor);
    }
  }

 private:
  static inline Edge closed = {nullptr, nullptr};  // its address marks a closed list

  typename Sync::template Atomic<int32_t> pending_{0};
  typename Sync::template Atomic<Edge*> successors_{nullptr};
};

}  // namespace snug
