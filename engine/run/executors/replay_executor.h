// Replays the schedule of an Executable. Each stream is a thread with its list of Steps and, before some of them, waits
// for Steps of other streams. The compiler has found what must come before what (engine/compile/schedule/streams.h), so
// a replayed step takes no lock, allocates nothing and looks nothing up.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/base/event.h"
#include "engine/run/executors/bound_steps.h"

namespace snug::core {

class ReplayExecutor : public BoundExecutor {
 public:
  // Starts one thread for each stream but the first, which runs on the thread that calls Run.
  ReplayExecutor(const Executable& executable, const ArenaBytes& arenas);
  ~ReplayExecutor() override;

  absl::Status Run(Failure* failure) override;
  std::vector<At> Running() const override;

 private:
  struct Stream;
  struct Wait {
    Stream* stream;
    uint32_t done;  // how many of its Steps must be done
  };
  struct Entry {
    int32_t step = 0;
    uint32_t first_wait = 0, last_wait = 0;  // [first, last) of the stream's waits
    bool signals = false;                    // whether somebody waits for it
    bool mutates = false;
  };
  // Lies on cache lines of its own, because the others look at `done` while they wait.
  struct alignas(64) Stream {
    int32_t number = 0;
    std::vector<Entry> entries;
    std::vector<Wait> waits;
    bool mutated = false;
    std::thread thread;  // the first stream has none
    alignas(64) Counter go;
    alignas(64) Counter done;
    alignas(64) std::atomic<int32_t> at{kNowhere};  // a Step, or Waiting(Step), or kNowhere
  };

  static constexpr int32_t kNowhere = -1;
  static constexpr int32_t Waiting(int32_t step) { return -2 - step; }

  void Build();
  void Work(Stream& stream);
  void RunStream(Stream& stream);
  void Fail(int32_t step, absl::Status status);

  std::vector<std::unique_ptr<Stream>> streams_;
  std::atomic<bool> failed_{false};  // leaves out the rest of the run
  std::atomic<bool> stop_{false};

  std::mutex mu_;  // guards all members below, which only a failure touches
  absl::Status status_;
  size_t failed_step_ = 0;
};

}  // namespace snug::core
