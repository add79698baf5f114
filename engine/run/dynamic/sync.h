// What the scheduler's protocol is built from. It is a template over these, so that the model checker of the tests runs
// the very code that runs here, with primitives of its own that try every interleaving.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "engine/base/pause.h"

namespace snug {

struct StdSync {
  template <class T>
  using Atomic = std::atomic<T>;

  // Held for tens of nanoseconds: spins a little before it sleeps.
  class Mutex {
   public:
    void lock() {
      for (int i = 0; i < 50; ++i) {
        if (mu_.try_lock()) return;
        snug::Pause();
      }
      mu_.lock();
    }
    void unlock() { mu_.unlock(); }

   private:
    std::mutex mu_;
  };
  using Condition = std::condition_variable_any;

  // How often somebody looks again before sleeping: about as long as falling asleep and being woken takes.
  static constexpr int kPolls = 50;
  static void Pause() {
    for (int i = 0; i < 8; ++i) snug::Pause();
  }
};

}  // namespace snug
