// Runs the Steps one after the other on the calling thread: the truth that every other executor must equal. Running
// allocates nothing.
#pragma once

#include <atomic>

#include "engine/run/executors/bound_executor.h"
#include "engine/run/executors/poison.h"

namespace snug::core {

class SerialExecutor : public BoundExecutor {
 public:
  // `poison`, if it is not null, overwrites what each Step leaves free. It must outlive the executor.
  SerialExecutor(const Executable& executable, const ArenaBytes& arenas, Poison* poison)
      : BoundExecutor(executable, arenas), poison_(poison) {}

  absl::Status Run(Failure* failure) override;
  std::vector<At> Running() const override { return {{running_.load(std::memory_order_relaxed)}}; }

 private:
  absl::Status RunSteps(Failure* failure);

  Poison* poison_;
  std::atomic<int32_t> running_{-1};
};

}  // namespace snug::core
