// Reports where a run is stuck. A thread looks from time to time at which Step each stream is, and reports when none
// has finished for some time. It ends nothing; whoever gets the report may.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/run/session/program.h"

namespace snug::core {

struct WatchdogOptions {
  using Clock = std::chrono::steady_clock;
  double seconds = 0;  // without a finished Step until the first report, then twice as many, and so on; 0: off
  // Gets each report, on the watchdog's thread. Null: the report goes to standard error.
  std::function<void(const std::string& report)> report = {};
  // The time that `seconds` are counted by, asked for on the watchdog's thread before and after each look. A test
  // passes a clock that it moves itself; how often the watchdog looks goes by the machine's clock all the same.
  std::function<Clock::time_point()> now = Clock::now;
};

class Watchdog {
 public:
  explicit Watchdog(WatchdogOptions options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Must be called around each run; `program` must outlive the watchdog.
  void BeginRun(Program& program) {
    runs_.fetch_add(1, std::memory_order_relaxed);
    running_.store(&program, std::memory_order_release);
  }
  void EndRun() { running_.store(nullptr, std::memory_order_relaxed); }

 private:
  using Clock = WatchdogOptions::Clock;
  struct Sight {
    int64_t run = 0;
    std::vector<Executor::At> at;          // indexed by stream
    std::vector<Clock::time_point> since;  // by stream: when it was first seen there
    Clock::time_point moved;               // when something changed last
  };
  void Watch();
  // `now` must have been read before it was seen that `program` runs.
  void Look(Program& program, Clock::time_point now, Sight& seen);
  std::string Report(const Program& program, Clock::time_point now, const Sight& seen) const;

  const WatchdogOptions options_;
  std::atomic<int64_t> runs_{0};
  std::atomic<Program*> running_{nullptr};  // null: nothing runs
  double next_seconds_;                     // until the next report

  std::mutex mu_;  // guards stop_
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace snug::core
