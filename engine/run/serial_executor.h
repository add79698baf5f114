// Runs an Executable's Steps one after the other, on bytes given once: the truth that every other engine must equal.
// Running allocates nothing.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/run/poison.h"
#include "ops/kernel_context.h"

namespace snug {

class SerialExecutor {
 public:
  // All three must outlive it. Arenas are 64-byte aligned and as large as the plans say.
  SerialExecutor(const Executable& executable, std::byte* state_arena, std::byte* step_arena);
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // Runs every Step. A failing Step stops the run; *failed is its number.
  absl::Status Run(size_t* failed = nullptr);
  // Called after each Step with its number: profiling, tests. Not on the fast path when unset.
  void SetObserver(std::function<void(size_t step)> observer) { observer_ = std::move(observer); }
  // Overwrites what each Step leaves free. Null: no longer. It must outlive the executor.
  void SetPoison(Poison* poison) { poison_ = poison; }

  std::byte* Address(const Slot& slot) const;

 private:
  struct Call {
    KernelFn kernel;
    KernelContext context;
  };

  const Executable& executable_;
  std::byte* state_arena_;
  std::byte* step_arena_;
  std::vector<void*> pointers_;  // of all calls, one after the other; the contexts' spans point into it
  std::vector<Call> calls_;
  std::function<void(size_t)> observer_;
  Poison* poison_ = nullptr;
};

}  // namespace snug
