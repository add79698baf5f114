// The primitives of engine/run/dependency/sync.h, with every operation a step of the model. Relaxed ones belong to the
// step before them: the code under test uses them only for what no other thread changes meanwhile, because a lock is
// held, or the object is not shared yet, or another operation follows that decides.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "tests/engine/model.h"

namespace snug::core::model {

// kPolled: whether the threads that wait look once more before they sleep.
template <bool kPolled>
struct ModelSync {
  template <class T>
  class Atomic {
   public:
    Atomic() = default;
    explicit(false) Atomic(T value) : value_(value) {}  // as std::atomic
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    T load(std::memory_order order = std::memory_order_seq_cst) const {
      Begin(order);
      return value_;
    }
    void store(T value, std::memory_order order = std::memory_order_seq_cst) {
      Begin(order);
      value_ = value;
    }
    T exchange(T value, std::memory_order order = std::memory_order_seq_cst) {
      return Change(order, [&](T) { return value; });
    }
    T fetch_add(T n, std::memory_order order = std::memory_order_seq_cst) {
      return Change(order, [&](T old) { return old + n; });
    }
    T fetch_sub(T n, std::memory_order order = std::memory_order_seq_cst) {
      return Change(order, [&](T old) { return old - n; });
    }
    bool compare_exchange_weak(T& expected, T value, std::memory_order order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
      Begin(order);
      const bool equal = value_ == expected;
      if (equal) {
        value_ = value;
      } else {
        expected = value_;
      }
      return equal;
    }

   private:
    template <class F>
    T Change(std::memory_order order, F&& f) {
      Begin(order);
      const T old = value_;
      value_ = f(old);
      return old;
    }
    void Begin(std::memory_order order) const {
      if (order != std::memory_order_relaxed && Model::current->in_thread()) Model::current->SchedulingPoint(location_);
    }

    T value_{};
    Model::Location location_;
  };

  class Mutex {
   public:
    void lock() {
      if (Model::current->in_thread()) Model::current->Lock(waitable_);
    }
    void unlock() {
      if (Model::current->in_thread()) Model::current->Unlock(waitable_);
    }

   private:
    friend struct ModelSync;
    Model::Waitable waitable_;
  };

  class Condition {
   public:
    void wait(std::unique_lock<Mutex>& lock) { Model::current->Sleep(location_, sleepers_, lock.mutex()->waitable_); }
    void notify_one() {
      Model::current->SchedulingPoint(location_);
      Model::current->WakeOne(sleepers_);
    }
    void notify_all() {
      if (!Model::current->in_thread()) return;
      Model::current->SchedulingPoint(location_);
      Model::current->WakeAll(sleepers_);
    }

   private:
    Model::Location location_;
    std::vector<int> sleepers_;
  };

  static constexpr int kPolls = kPolled ? 1 : 0;
  static void Pause() {}
};

}  // namespace snug::core::model
