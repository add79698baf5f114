// The primitives of the scheduler's protocol. The protocol is a template over them, so that the model checker of the
// tests runs the very same code with primitives of its own, which try every interleaving.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "engine/base/event.h"

namespace snug::core {

struct StdSync {
  template <class T>
  using Atomic = std::atomic<T>;

  // It is held for tens of nanoseconds, so it spins a little before it sleeps.
  class Mutex {
   public:
    void lock() {
      for (int i = 0; i < 50; ++i) {
        if (mu_.try_lock()) return;
        core::Pause();
      }
      mu_.lock();
    }
    void unlock() { mu_.unlock(); }

   private:
    std::mutex mu_;
  };
  using Condition = std::condition_variable_any;

  // How often a thread looks again before it sleeps: about as long as it takes to fall asleep and be woken.
  static constexpr int kPolls = 50;
  static void Pause() {
    for (int i = 0; i < 8; ++i) core::Pause();
  }
};

}  // namespace snug::core
