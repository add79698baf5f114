// The Steps of an Executable with addresses instead of offsets, which executors call.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/run/executors/dynamic_blocks.h"
#include "engine/run/executors/executor.h"
#include "ops/kernel_context.h"

namespace snug::core {

// Arenas must be aligned as their device needs it (Device::alignment) and as large as the plans say.
struct ArenaBytes {
  std::byte* state = nullptr;
  std::byte* step = nullptr;
  DynamicBlocks* blocks = nullptr;     // replaces the step arena where memory is dynamic
  std::byte* const* caller = nullptr;  // buffers of the caller, by number; null: not bound yet

  std::byte* Address(const Slot& slot) const {
    if (slot.offset < 0) return nullptr;
    if (slot.arena == Arena::kCaller) {
      std::byte* const buffer = caller[slot.block];
      return buffer == nullptr ? nullptr : buffer + slot.offset;
    }
    if (slot.arena == Arena::kBlocks) return blocks->Address(slot.block) + slot.offset;
    return (slot.arena == Arena::kState ? state : step) + slot.offset;
  }
};

class BoundSteps {
 public:
  // Says by Step where a CUDA kernel is launched.
  using Launches = std::vector<const cuda::LaunchContext*>;

  // Both arguments must outlive this. Without launches the Steps run on the CPU.
  BoundSteps(const Executable& executable, const ArenaBytes& arenas, Launches launches = {});
  BoundSteps(const BoundSteps&) = delete;
  BoundSteps& operator=(const BoundSteps&) = delete;

  size_t size() const { return calls_.size(); }
  // Runs a Step. Different Steps may run side by side.
  absl::Status Run(size_t step) {
    if (arenas_.blocks != nullptr) return RunOnBlocks(step);
    return (*calls_[step].kernel)(calls_[step].context);
  }
  // Step::instead serves from now on. Between runs of the Step.
  void UseInstead(size_t step);
  // What its kernel is given; good as long as this is. Where memory is planned.
  const KernelContext& context(size_t step) const { return calls_[step].context; }
  // These do the same in two parts where memory is dynamic. Between them, the addresses of the Step's blocks are known.
  absl::Status TakeBlocks(size_t step) { return arenas_.blocks->TakeFor(step); }
  absl::Status RunOnTaken(size_t step);
  // Must be called between runs when the caller has bound another buffer.
  void Rebind(size_t caller_buffer);
  // Must be called after the last Step or, with `complete` false, when one has failed and none runs any more.
  absl::Status EndRun(bool complete) {
    return arenas_.blocks == nullptr ? absl::OkStatus() : arenas_.blocks->EndRun(complete);
  }

 private:
  struct Call {
    const KernelFn* kernel;  // the Step's
    const void* prepared;
    KernelContext context;
    void* const* pointers;                     // of this call: inputs, then outputs
    size_t first_moving = 0, last_moving = 0;  // its part [first, last) of moving_
  };
  // A pointer that is not always the same: to a block, which is known only when the Step runs, or to a buffer that the
  // caller binds, which is known before each run.
  struct Moving {
    size_t pointer;
    Slot slot;
  };

  KernelContext Context(size_t step, const void* prepared, void* const* pointers) const;
  void AddPointer(const Slot& slot);
  absl::Status RunOnBlocks(size_t step) {
    const absl::Status taken = TakeBlocks(step);
    return taken.ok() ? RunOnTaken(step) : taken;
  }

  const Executable& executable_;
  const ArenaBytes arenas_;
  const Launches launches_;
  std::vector<void*> pointers_;  // of all calls, one after the other; the contexts have spans of it
  std::vector<Moving> moving_;
  std::vector<std::vector<Moving>> to_caller_;  // indexed by the caller's buffer
  std::vector<Call> calls_;
};

// What all executors of whole steps have in common: where everything lies.
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
