// Pushes the Steps of an Executable through the dependency engine, which finds out what must wait for what as they
// come: what the replay has worked out beforehand. For networks that share an engine with other tasks, and as the
// replay's check.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <mutex>
#include <vector>

#include "engine/run/engine.h"
#include "engine/run/planned_executor.h"

namespace snug {

class DynamicExecutor : public PlannedExecutor {
 public:
  // As many workers as the schedule has streams.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Executable& executable, const ArenaBytes& arenas);

  absl::Status Run(Failure* failure) override;
  std::vector<At> Running() const override;

 private:
  DynamicExecutor(const Executable& executable, const ArenaBytes& arenas, std::unique_ptr<Engine> engine);
  absl::Status RunStep(size_t step, const TaskContext& context);

  struct Accesses {
    std::vector<Region> reads, writes;
  };
  std::vector<Accesses> accesses_;             // by Step
  std::vector<std::atomic<int32_t>> running_;  // by stream

  std::atomic<bool> mutated_{false};
  std::mutex mu_;  // guards failed_step_
  size_t failed_step_ = 0;

  std::unique_ptr<Engine> engine_;  // the last one: its workers stop before what they use goes
};

}  // namespace snug
