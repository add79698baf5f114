// What all executors of whole steps have in common: where everything lies.
#pragma once

#include <utility>

#include "engine/run/executors/bound_steps.h"
#include "engine/run/executors/executor.h"

namespace snug::core {

class BoundExecutor : public Executor {
 public:
  std::byte* InputBytes(size_t input) const override { return arenas_.Address(executable_.inputs[input].slot); }
  void Rebind(size_t caller_buffer) override { steps_.Rebind(caller_buffer); }
  std::byte* OutputBytes(size_t output) const override { return arenas_.Address(executable_.outputs[output].slot); }

 protected:
  // The Executable must outlive this.
  BoundExecutor(const Executable& executable, const ArenaBytes& arenas, BoundSteps::Launches launches = {})
      : executable_(executable), arenas_(arenas), steps_(executable, arenas, std::move(launches)) {}

  const Executable& executable_;
  const ArenaBytes arenas_;
  BoundSteps steps_;
};

}  // namespace snug::core
