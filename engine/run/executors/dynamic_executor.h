// Pushes the Steps of an Executable through the dependency engine, which finds out at run time what must wait for what;
// the replay gets that from the compiler. It is for networks that share an engine with other tasks, and as a check of
// the replay.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <mutex>
#include <vector>

#include "engine/run/dependency/engine.h"
#include "engine/run/executors/bound_steps.h"

namespace snug::core {

class DynamicExecutor : public BoundExecutor {
 public:
  // Makes as many workers as the schedule has streams.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Executable& executable, const ArenaBytes& arenas);

  absl::Status Run(Failure* failure) override;
  std::vector<At> Running() const override;

 private:
  DynamicExecutor(const Executable& executable, const ArenaBytes& arenas, std::unique_ptr<Engine> engine);
  absl::Status RunStep(size_t step, const TaskContext& context);

  struct Accesses {
    std::vector<Region> reads, writes;
  };
  std::vector<Accesses> accesses_;             // indexed by Step
  std::vector<std::atomic<int32_t>> running_;  // indexed by stream

  std::atomic<bool> mutated_{false};
  std::mutex mu_;  // guards failed_step_
  size_t failed_step_ = 0;

  std::unique_ptr<Engine> engine_;  // the last member, so that its workers stop before what they use goes
};

}  // namespace snug::core
