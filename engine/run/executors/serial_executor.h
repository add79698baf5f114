// The executor that all others are measured by, and what it can do for debugging.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/run/executors/bound_steps.h"
#include "memory/problem.h"

namespace snug::core {

// A debug aid that overwrites bytes as soon as nothing needs them. A kernel that reads what a plan has freed, or what
// nobody has written, then finds NaNs (all bits set) instead of numbers that happen to be right.
class Poison {
 public:
  // Positions in the problem are numbers of Steps, 0 to steps - 1.
  Poison(const memory::Problem& problem, const memory::Plan& plan, size_t steps, std::byte* arena);

  void BeforeSteps() { Fill(unfed_); }  // overwrites all that is not fed
  void AfterStep(size_t step) { Fill(freed_[step]); }

 private:
  struct Range {
    int64_t begin, end;
  };
  using Ranges = std::vector<Range>;
  static Ranges Without(const Ranges& ranges, const Range& taken);
  void Fill(const Ranges& ranges);

  std::byte* arena_;
  Ranges unfed_;
  std::vector<Ranges> freed_;  // by Step
};

// Runs the Steps one after the other on the calling thread: the truth that every other executor must equal. Running
// allocates nothing.
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
